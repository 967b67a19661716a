/** Functions of MariaDB that compute a value and do nothing else. A statement calls no other one unless the system lists it. */
export const FUNCTIONS: ReadonlySet<string> = new Set(
  `abs acos adddate addtime add_months ascii asin atan atan2 avg bin bit_and bit_count bit_length bit_or bit_xor cast ceil ceiling char
  character_length char_length chr coalesce coercibility collation column_check column_exists column_get column_json column_list compress
  concat concat_ws conv convert convert_tz cos cot count crc32 crc32c cume_dist curdate current_date current_time current_timestamp curtime
  date datediff date_add date_format date_sub day dayname dayofmonth dayofweek dayofyear degrees dense_rank elt exp export_set extract
  extractvalue field find_in_set first_value floor format from_base64 from_days from_unixtime greatest group_concat hex hour if ifnull
  inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr interval isnull is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 json_array
  json_arrayagg json_array_append json_array_insert json_compact json_contains json_contains_path json_depth json_detailed json_equals
  json_exists json_extract json_insert json_keys json_length json_loose json_merge json_merge_patch json_merge_preserve json_normalize
  json_object json_objectagg json_overlaps json_pretty json_query json_quote json_remove json_replace json_search json_set json_table
  json_type json_unquote json_valid json_value lag last_day last_value lcase lead least left length lengthb ln localtime localtimestamp
  locate log log10 log2 lower lpad ltrim makedate maketime make_set match max md5 median microsecond mid min minute mod month monthname
  natural_sort_key now nth_value ntile nullif nvl nvl2 oct octet_length ord percentile_cont percentile_disc percent_rank period_add
  period_diff pi position pow power quarter quote radians rand rank regexp_instr regexp_replace regexp_substr repeat replace reverse right
  round row row_number rpad rtrim second sec_to_time sformat sha sha1 sha2 sign sin soundex space sqrt st_asgeojson st_astext st_distance
  st_distance_sphere st_geomfromtext st_x st_y std stddev stddev_pop stddev_samp strcmp str_to_date subdate substr substring
  substring_index subtime sum sysdate tan time timediff timestamp timestampadd timestampdiff time_format time_to_sec to_base64 to_char
  to_days to_seconds trim truncate ucase uncompress uncompressed_length unhex unix_timestamp upper utc_date utc_time utc_timestamp uuid values
  value variance var_pop var_samp week weekday weekofyear weight_string year yearweek`.split(/\s+/),
);

/** Words that may be followed by a parenthesis and call nothing: of the language, and the types in CAST. */
export const LANGUAGE: ReadonlySet<string> = new Set(
  `all against and any as between binary by case columns dec decimal datetime default distinct distinctrow div double else except exists
  fixed float for from group having ignore in index inner intersect is join key like limit nchar not numeric of offset on or order over
  partition path regexp returning rlike select set some straight_join then union unique update using varbinary varchar when where window
  with xor`.split(/\s+/),
);
