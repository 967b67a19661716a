import type { ContextRule } from "./rule.ts";

/** Programs that take a password after a flag: programs, flags, an example. A flag that ends in a space has a separate value. */
const FLAGS: readonly (readonly [programs: readonly string[], flags: readonly string[], matches: string])[] = [
  [
    ["docker login", "podman login", "nerdctl login", "buildah login", "oras login", "crane auth login", "sshpass"],
    [" -p ", " -p", " --password "],
    "docker login -u me -p «s3cretpw» registry",
  ],
  [
    ["helm registry login", "twine upload", "conan user ", "conan remote login", "oc login", "cf login"],
    [" -p "],
    "oc login https://h -u me -p «s3cretpw»",
  ],
  [["mysql ", "mysqldump ", "mysqladmin ", "mysqlimport ", "mariadb "], [" -p"], "mysql -u root -p«s3cretpw» app"],
  [["mongosh ", "mongodump ", "mongorestore ", "mongo ", "az login "], [" -p "], "mongosh -u me -p «s3cretpw»"],
  [["redis-cli"], [" -a ", " --pass "], "redis-cli -a «s3cretpw» ping"],
  [["unzip ", "zip "], [" -P "], "unzip -P «s3cretpw» a.zip"],
  [["7z ", "7za "], [" -p"], "7z x -p«s3cretpw» a.7z"],
  [["openssl enc", "openssl aes"], [" -k ", " -K "], "openssl enc -aes-256-cbc -k «s3cretpw» -in a"],
  [["mosquitto_pub", "mosquitto_sub"], [" -P ", " --pw "], "mosquitto_pub -u me -P «s3cretpw» -t a"],
  [["keyvault secret set", "ssm put-parameter"], [" --value "], "aws ssm put-parameter --name a --value «s3cretpw»"],
  [["gh secret set"], [" --body ", " -b ", " -b"], "gh secret set A --body «s3cretpw»"],
  [
    ["ldapsearch", "ldapmodify", "ldapadd", "ldapwhoami", "ldapdelete", "ldappasswd"],
    [" -w ", " -s "],
    "ldapsearch -D cn=admin -w «s3cretpw» -b dc=x",
  ],
  [["sqlcmd", "osql", "bcp "], [" -P ", " -P"], "sqlcmd -S h -U sa -P «s3cretpw»"],
  [
    ["snmpget", "snmpwalk", "snmpbulkwalk", "snmpset", "snmptrap"],
    [" -A ", " -X ", " -c "],
    "snmpwalk -v2c -c «s3cretpw» host",
  ],
  [["ipmitool"], [" -P "], "ipmitool -H h -U admin -P «s3cretpw» power status"],
  [["rdesktop", "cqlsh", "psexec", "rabbitmqadmin", "useradd ", "usermod "], [" -p "], "cqlsh h -u bob -p «s3cretpw»"],
  [["unrar ", "rar "], [" -p"], "unrar x -p«s3cretpw» a.rar"],
  [["xfreerdp"], [" /p:"], "xfreerdp /v:h /u:bob /p:«s3cretpw»"],
  [["x11vnc"], [" -passwd "], "x11vnc -passwd «s3cretpw» -display :0"],
  [["ssh-keygen"], [" -N ", " -P "], "ssh-keygen -t rsa -N «s3cretpw» -f k"],
  [["plink", "pscp ", "psftp"], [" -pw "], "plink -ssh bob@h -pw «s3cretpw» ls"],
  [["schtasks"], [" /rp ", " /p "], "schtasks /create /tn x /ru bob /rp «s3cretpw»"],
  [["nmcli "], [" password ", " wifi-sec.psk "], "nmcli dev wifi connect SSID password «s3cretpw»"],
  [["rootpw"], [" --plaintext ", " --iscrypted "], "rootpw --plaintext «s3cretpw»"],
];

/** Words that a password follows directly, wherever they occur. */
const OPENINGS: readonly string[] = [
  ...[" -storepass ", " -keypass ", " -srcstorepass ", " -deststorepass ", "neo4j_auth=neo4j/"],
  ...["-password password ", "-password-again password ", "/root_password password "],
  ...["convertto-securestring ", "convertto-securestring -string ", "-setcookie "],
  ...["reset-admin-password ", " input_pw ", " owner_pw ", " user_pw ", "sudo -s <<< ", "--passphrase-fd 0 <<< "],
  ...[" -passin pass:", " -passout pass:", " -pass pass:", " -k pass:"],
  ...[1, 2, 3, 4, 5].map((share) => `unseal key ${share}: `),
];

/** Programs with a password among their arguments, and the number of arguments before it that are not flags. */
const ARGUMENTS: readonly (readonly [
  programs: readonly string[],
  position: number,
  flags: "-" | "/-",
  matches: string,
])[] = [
  [["vault login ", "cargo login "], 0, "-", "vault login -no-store «s3cretPw9»"],
  [["rabbitmqctl add_user ", "rabbitmqctl change_password "], 1, "/-", "rabbitmqctl add_user bob «s3cretPw9»"],
  [["config set --secret ", "config pypi-token.", "net user "], 1, "/-", "net user bob «s3cretPw9» /add"],
  [["config http-basic.", "isql "], 2, "-", "composer config http-basic.h bob «s3cretPw9»"],
  [["net use "], 2, "/-", "net use Z: \\\\h\\s «s3cretPw9» /user:bob"],
  [["mc alias set "], 3, "-", "mc alias set a https://h bob «s3cretPw9»"],
];

/** Returns a pattern that skips flags and `position` other arguments. */
function skipped(position: number, flags: "-" | "/-"): string {
  const flag = String.raw`(?:[${flags}]\S*[ \t]+)*`;
  return String.raw`[ \t]*${flag}(?:[^\s,;<>|${flags}]\S*[ \t]+${flag}){${position}}()[^\s,;<>|${flags}]`;
}

const HTPASSWD = String.raw`(?:-\w* +)*-\w*`;
const ARGUMENT = String.raw`(?:-\w* +)*[^\s-]\S* +`;

/** Programs that read a password from their input. */
const READERS = "--password-stdin|passwd --stdin|sudo -S|--with-token|kinit|cryptsetup";

/** Matches the text between `IDENTIFIED BY` and the password: `plugin AS `, `PASSWORD `, `VALUES `, or nothing. */
const PLUGIN = "(?i:(?:\\w{1,48} (?:by|as|using) |[\"'\\x60]\\w{1,48}[\"'\\x60] (?:by|as) )?(?:password |values )?)";

const LOGIN = { id: "login-password", argument: true } as const;

/** Passwords in command lines. */
export const COMMAND_RULES: readonly ContextRule[] = [
  ...FLAGS.map(
    ([anchors, flags, matches]): ContextRule => ({
      ...LOGIN,
      anchors,
      command: true,
      near: `(?:${flags.join("|")})()`,
      matches: [matches],
      misses: [matches.replace(/«.*?»/, "$PW").replace(/ \$PW/, " -v $PW")],
    }),
  ),
  ...ARGUMENTS.map(
    ([anchors, position, flags, matches]): ContextRule => ({
      ...LOGIN,
      anchors,
      word: true,
      after: skipped(position, flags),
      value: "likely-argument",
      matches: [matches],
      misses: [matches.replace(/«.*?»/, "letters")],
    }),
  ),
  {
    ...LOGIN,
    anchors: ["htpasswd "],
    word: true,
    after: String.raw`${HTPASSWD}(?:n\w*b|b\w*n|b +-\w*n|n +-\w*b)\w* +${ARGUMENT}()[^\s-]`,
    value: "likely-argument",
    matches: ["htpasswd -nb bob «s3cretPw9»"],
    misses: ["htpasswd -n bob s3cretPw9"],
  },
  {
    ...LOGIN,
    anchors: ["htpasswd "],
    word: true,
    after: String.raw`(?:-[^\sn]* +)*-[^\sn]*b[^\sn]* +${ARGUMENT}${ARGUMENT}()[^\s-]`,
    value: "likely-argument",
    matches: ["htpasswd -b /etc/users bob «s3cretPw9»"],
    misses: ["htpasswd /etc/users bob s3cretPw9"],
  },
  {
    ...LOGIN,
    anchors: ["echo ", "printf "],
    word: true,
    has: "|",
    after: String.raw`[ \t]*(?:(?:-|["'\x60]?%)\S*[ \t]+)*()[^\s|%-][^|]*\|.*(?:${READERS})`,
    matches: ["echo «hunter2x» | docker login --password-stdin"],
    misses: ["echo hunter2x | cat", "echo $PW | docker login --password-stdin"],
  },
  {
    ...LOGIN,
    anchors: ["echo ", "printf "],
    word: true,
    has: "|",
    after: String.raw`[ \t]*(?:-\S*[ \t]+)*["'\x60]?[\w.-]+:()[^|]*\|.*chpasswd`,
    matches: ["echo root:«hunter2x» | sudo chpasswd"],
    misses: ["echo root | sudo chpasswd"],
  },
  {
    ...LOGIN,
    anchors: ["chpasswd <<< "],
    after: String.raw`["'\x60]?[\w.-]+:()`,
    matches: ["chpasswd <<< 'root:«hunter2x»'"],
    misses: ["chpasswd <<< $line"],
  },
  {
    ...LOGIN,
    anchors: ["smbclient "],
    word: true,
    near: String.raw`-U [\w."'\x60-]*%()`,
    matches: ["smbclient //host/share -U bob%«hunter2x»"],
    misses: ["smbclient //host/share -U bob"],
  },
  {
    ...LOGIN,
    anchors: OPENINGS,
    matches: ["keytool -storepass «hunter2x» -list", "openssl rsa -passin pass:«hunter2x» -in k"],
    misses: ["keytool -storepass -list", "openssl rsa -passin pass:$PW"],
  },
  {
    ...LOGIN,
    anchors: ["identified by ", "identified with ", "identified via "],
    after: `${PLUGIN}()["']`,
    matches: ["CREATE USER b IDENTIFIED BY '«hunter2x»'", "identified with caching_sha2_password by '«hunter2x»'"],
    misses: ["the user is identified by name", "IDENTIFIED BY PASSWORD ''"],
  },
  {
    id: "login-password",
    anchors: ["IDENTIFIED BY ", "identified BY "],
    cased: true,
    before: String.raw`(?i)\b(?:(?:create|alter) (?:or replace )?user|grant|link)\b[^;]+$`,
    after: String.raw`${PLUGIN}(\w[\w.$-]{2,})`,
    windowMax: [256, 256],
    value: "argument",
    matches: ["CREATE USER scott IDENTIFIED BY «tiger»;"],
    misses: ["each row is IDENTIFIED BY name", "CREATE USER bob IDENTIFIED BY PASSWORD"],
  },
  {
    id: "login-password",
    anchors: ["sqlplus ", "jdbc:oracle:thin:", "jdbc:oracle:oci:", "sqlldr ", "expdp ", "impdp "],
    word: true,
    after: String.raw`[^\s/]+/([^\s@]{3,})@`,
    matches: ["sqlplus scott/«tiger»@orcl"],
    misses: ["sqlplus / as sysdba", "sqlplus scott@orcl"],
  },
  {
    id: "curl-user",
    anchors: ["curl"],
    command: true,
    near: "(?: -u | --user | --user=| --proxy-user | -u)[\"'\\x60]?[^\\s\"'\\x60:]*:([^\\s\"'\\x60$<{][^\\s\"'\\x60]*)",
    matches: ["curl -s -u admin:«hunter2x» https://h"],
    misses: ["curl -u admin https://h", "curl -u admin:$PW https://h"],
  },
  ...["'", '"'].map(
    (quote): ContextRule => ({
      id: "cookie",
      anchors: [` -b ${quote}`],
      before: "(?s)curl.*$",
      after: `([\\w.-]+=[^$<{${quote}]{4}[^${quote}]*)`,
      scope: "text",
      windowMax: [256, 512],
      matches: [`curl -b ${quote}«sid=abc123x9»${quote} https://h`],
      misses: [`git checkout -b ${quote}a=b${quote}`, `curl -b ${quote}jar${quote} https://h`],
    }),
  ),
];
