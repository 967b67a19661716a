CREATE TABLE approval_counters (
  name text COLLATE "C" NOT NULL,
  value bigint NOT NULL,
  PRIMARY KEY (name)
);
INSERT INTO approval_counters VALUES ('events', '24');
CREATE TABLE approval_deliveries (
  webhook text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  attempts bigint NOT NULL,
  first_at bigint NOT NULL,
  next_at bigint NOT NULL,
  PRIMARY KEY (webhook, seq)
);
CREATE INDEX approval_deliveries_due ON approval_deliveries USING btree (webhook, next_at);
CREATE TABLE approval_events (
  seq bigint NOT NULL,
  at bigint NOT NULL,
  type text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  tool text COLLATE "C",
  summary text COLLATE "C",
  issuer text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  webhooks text COLLATE "C",
  PRIMARY KEY (seq)
);
INSERT INTO approval_events VALUES ('1', '1795946005469', 'approval.requested', 'df0f3534-d2ec-41d0-9e78-ff7de071d18f', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('10', '1795946005808', 'approval.requested', 'd14d6e93-7f4b-4e0e-85be-db805d5f71e7', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('11', '1795946005822', 'approval.denied', 'd14d6e93-7f4b-4e0e-85be-db805d5f71e7', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('12', '1795946005840', 'approval.requested', '3f860ede-cbac-4670-8938-36683437c8b8', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('13', '1795946005848', 'approval.cancelled', '3f860ede-cbac-4670-8938-36683437c8b8', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('14', '1795946005866', 'approval.requested', '32055539-0cf4-40e9-a700-c397137fe528', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('15', '1795946005881', 'approval.approved', '32055539-0cf4-40e9-a700-c397137fe528', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('16', '1795946005881', 'grant.created', 'c1995a98-d01f-40a1-95f7-65ccb5046e65', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('17', '1795946005945', 'session.mode', 'uO6BLb9G-lz4TVvH_UWIGXeDeyZJQEkT', NULL, 'autoEdit', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('18', '1795946006059', 'approval.requested', 'd2daceca-b4ff-4a2f-bb80-dfb08e721025', 'refund', 'refund on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('19', '1795946006101', 'approval.approved', 'd2daceca-b4ff-4a2f-bb80-dfb08e721025', 'refund', 'refund on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('2', '1795946005555', 'approval.approved', 'df0f3534-d2ec-41d0-9e78-ff7de071d18f', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('20', '1795946006101', 'grant.created', 'e0d63e0b-ea7a-40fc-b849-7839fe746c05', 'refund', 'refund on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('21', '1795946006110', 'approval.claimed', 'd2daceca-b4ff-4a2f-bb80-dfb08e721025', 'refund', 'refund on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('22', '1795946006110', 'grant.used', 'e0d63e0b-ea7a-40fc-b849-7839fe746c05', 'refund', 'refund on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('23', '1795946006137', 'approval.executed', 'd2daceca-b4ff-4a2f-bb80-dfb08e721025', 'refund', 'refund on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('24', '1795946006159', 'grant.used', 'e0d63e0b-ea7a-40fc-b849-7839fe746c05', 'refund', 'refund on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('3', '1795946005600', 'approval.requested', 'c8d8e5ee-c851-478c-8a00-30000c11830a', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('4', '1795946005643', 'approval.requested', '8b14de13-281a-4d7b-9efc-b4ac30ff7d07', 'pay', 'pay on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('5', '1795946005705', 'approval.voted', '8b14de13-281a-4d7b-9efc-b4ac30ff7d07', 'pay', 'pay on inline (write, medium risk); two-people, deciders: 1 of 2', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('6', '1795946005748', 'approval.requested', '0f493bb2-1349-4bb7-b013-d28c798ad789', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('7', '1795946005781', 'approval.approved', '0f493bb2-1349-4bb7-b013-d28c798ad789', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('8', '1795946005789', 'approval.claimed', '0f493bb2-1349-4bb7-b013-d28c798ad789', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
INSERT INTO approval_events VALUES ('9', '1795946005800', 'approval.executed', '0f493bb2-1349-4bb7-b013-d28c798ad789', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7', NULL);
CREATE INDEX approval_events_age ON approval_events USING btree (at);
CREATE TABLE approval_grants (
  id text COLLATE "C" NOT NULL,
  issuer text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  tool text COLLATE "C" NOT NULL,
  grant_key text COLLATE "C" NOT NULL,
  summary text COLLATE "C" NOT NULL,
  approval_id text COLLATE "C" NOT NULL,
  granted_issuer text COLLATE "C" NOT NULL,
  granted_subject text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  revoked_at bigint,
  bounds_key text COLLATE "C",
  bounds text COLLATE "C",
  runs_max bigint,
  runs_used bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (id)
);
INSERT INTO approval_grants VALUES ('c1995a98-d01f-40a1-95f7-65ccb5046e65', 'https://idp.test', 'agent-7', 'eWWXAgWRL5VlgydaTXROT9dN9BaRwjjP', 'change', '8a3313e9699f24a41bb0dc1374f578c2a0a7034aafef0a2cf1d89bc6d3d52b1d', 'change on inline (write, medium risk)', '32055539-0cf4-40e9-a700-c397137fe528', 'https://people.test', 'alice', '1795946005881', '1795974805881', NULL, NULL, NULL, NULL, '0');
INSERT INTO approval_grants VALUES ('e0d63e0b-ea7a-40fc-b849-7839fe746c05', 'https://idp.test', 'agent-7', '', 'refund', 'cf15af5727d7cd5fab0d6bbbd638fb89c1ab526fb18cec25d00b9df431832ba2', 'refund on inline (write, medium risk)', 'd2daceca-b4ff-4a2f-bb80-dfb08e721025', 'https://people.test', 'alice', '1795946006101', '1795974806101', NULL, 'c425b1d9a5dadcfea9b7200ece881a5878dcdf0a83f9c6a4d63e7157de78c602', '{"boundsKey":"c425b1d9a5dadcfea9b7200ece881a5878dcdf0a83f9c6a4d63e7157de78c602","isElevated":false,"risk":"medium","rules":["default"],"terms":{"runs":2,"minutes":600,"arguments":{"cents":{"min":1,"max":500}}},"salt":"10829bbcb3f833fa4bc56d711747178b348fab183c77a7787e1475803f643db7","digests":{"cents":"c15b8929686b2a1715c800151334c2c66449351bfd5c4069aed3374481ae656d"}}', '2', '2');
CREATE INDEX approval_grants_bounded ON approval_grants USING btree (bounds_key, expires_at) WHERE ((revoked_at IS NULL) AND (bounds_key IS NOT NULL));
CREATE INDEX approval_grants_by_approval ON approval_grants USING btree (approval_id);
CREATE INDEX approval_grants_expiry ON approval_grants USING btree (expires_at);
CREATE UNIQUE INDEX approval_grants_live ON approval_grants USING btree (issuer, subject, session, grant_key) WHERE (revoked_at IS NULL);
CREATE TABLE approval_key_totals (
  issuer text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  held_keys bigint NOT NULL,
  held_bytes bigint NOT NULL,
  PRIMARY KEY (issuer, subject)
);
INSERT INTO approval_key_totals VALUES ('https://idp.test', 'agent-7', '2', '135');
CREATE TABLE approval_keys (
  issuer text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  tool text COLLATE "C" NOT NULL,
  key_hash text COLLATE "C" NOT NULL,
  args_hash text COLLATE "C" NOT NULL,
  state text COLLATE "C" NOT NULL,
  lease_until bigint NOT NULL,
  expires_at bigint NOT NULL,
  answer_bytes bigint NOT NULL,
  answer text COLLATE "C",
  PRIMARY KEY (issuer, subject, tool, key_hash),
  CHECK ((state = ANY (ARRAY['running'::text, 'answered'::text, 'unknown'::text, 'not_run'::text])))
);
INSERT INTO approval_keys VALUES ('https://idp.test', 'agent-7', 'change_freely', '68c780cd132a0299c7cd3fa8649783cbc2872a98d90cd4ed6b9696e3c61c4c68', 'b79c5b75016c0bece3a0f9aecca0e18196745ffb7f3b3059a335274eb7d99485', 'answered', '1795946905953', '1796032405979', '135', '{"result":{"did":"once","by":6476},"filteredFields":[],"outputHash":"111e809d22cc15691d0f49e0bd97feec512d7e11bcbfede9a86fd60f86c87f12"}');
INSERT INTO approval_keys VALUES ('https://idp.test', 'agent-7', 'hang', '01e3c9895eb9c26c73881fcce39f5084a132198dd646b02ff377b7033dd7a47c', 'a564fb563d734d8f6abd475d7f26fe297de8d8cae517447d9db13c32befafa5e', 'running', '1795946908233', '1796033308233', '0', NULL);
CREATE INDEX approval_keys_expiry ON approval_keys USING btree (expires_at);
CREATE TABLE approval_messages (
  webhook text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  received_at bigint NOT NULL,
  PRIMARY KEY (webhook, id)
);
CREATE INDEX approval_messages_age ON approval_messages USING btree (received_at);
CREATE TABLE approval_schema (
  version bigint NOT NULL
);
INSERT INTO approval_schema VALUES ('9');
CREATE TABLE approval_sessions (
  issuer text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  minted bigint NOT NULL,
  mode text COLLATE "C" NOT NULL,
  mode_until bigint,
  mode_issuer text COLLATE "C",
  mode_subject text COLLATE "C",
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  ended_at bigint,
  PRIMARY KEY (issuer, subject, id)
);
INSERT INTO approval_sessions VALUES ('https://idp.test', 'agent-7', 'eWWXAgWRL5VlgydaTXROT9dN9BaRwjjP', '1', 'default', NULL, NULL, NULL, '1795946005853', '1795974805853', NULL);
INSERT INTO approval_sessions VALUES ('https://idp.test', 'agent-7', 'uO6BLb9G-lz4TVvH_UWIGXeDeyZJQEkT', '1', 'autoEdit', '1795953205942', 'https://people.test', 'alice', '1795946005913', '1795974805913', NULL);
CREATE INDEX approval_sessions_by_id ON approval_sessions USING btree (id);
CREATE INDEX approval_sessions_expiry ON approval_sessions USING btree (expires_at);
CREATE INDEX approval_sessions_modes ON approval_sessions USING btree (mode_until) WHERE (mode_until IS NOT NULL);
CREATE TABLE approval_tasks (
  id_hash text COLLATE "C" NOT NULL,
  issuer text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  actors text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  tool text COLLATE "C" NOT NULL,
  approval_id text COLLATE "C" NOT NULL,
  sealed_call text COLLATE "C" NOT NULL,
  sealed_answer text COLLATE "C",
  bytes bigint NOT NULL,
  noted text COLLATE "C" NOT NULL,
  started_at bigint,
  cancelled_at bigint,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (id_hash)
);
CREATE INDEX approval_tasks_by_approval ON approval_tasks USING btree (approval_id);
CREATE INDEX approval_tasks_by_caller ON approval_tasks USING btree (issuer, subject, bytes);
CREATE INDEX approval_tasks_expiry ON approval_tasks USING btree (expires_at);
CREATE TABLE approval_webhooks (
  name text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  failures bigint NOT NULL,
  paused_until bigint NOT NULL,
  disabled_at bigint,
  lease_owner text COLLATE "C" NOT NULL,
  lease_until bigint NOT NULL,
  PRIMARY KEY (name)
);
CREATE TABLE approvals (
  id text COLLATE "C" NOT NULL,
  state text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  issuer text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  actors text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  tool text COLLATE "C" NOT NULL,
  category text COLLATE "C" NOT NULL,
  classification text COLLATE "C" NOT NULL,
  risk text COLLATE "C" NOT NULL,
  rules text COLLATE "C" NOT NULL,
  plan_digest text COLLATE "C" NOT NULL,
  call_digest text COLLATE "C",
  view text COLLATE "C" NOT NULL,
  view_digest text COLLATE "C" NOT NULL,
  summary text COLLATE "C" NOT NULL,
  scopes text COLLATE "C" NOT NULL,
  grant_key text COLLATE "C",
  trace_id text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  decide_by bigint NOT NULL,
  execute_by bigint,
  decided_at bigint,
  decided_issuer text COLLATE "C",
  decided_subject text COLLATE "C",
  scope text COLLATE "C",
  decision_reason text COLLATE "C",
  lease_until bigint,
  ended_at bigint,
  requirement text COLLATE "C",
  requirement_digest text COLLATE "C" NOT NULL DEFAULT ''::text,
  votes text COLLATE "C" NOT NULL DEFAULT '[]'::text,
  answer text COLLATE "C",
  escalations text COLLATE "C" NOT NULL DEFAULT '[]'::text,
  escalate_at bigint,
  grant_offer text COLLATE "C",
  granted text COLLATE "C",
  PRIMARY KEY (id),
  CHECK ((state = ANY (ARRAY['pending'::text, 'approved'::text, 'denied'::text, 'expired'::text, 'cancelled'::text, 'revoked'::text, 'claimed'::text, 'executed'::text, 'failed'::text, 'in_doubt'::text])))
);
INSERT INTO approvals VALUES ('0f493bb2-1349-4bb7-b013-d28c798ad789', 'executed', '4', 'https://idp.test', 'agent-7', '[]', '', 'change', 'write', 'write', 'medium', '["default"]', '9e456c11688f9b86f259ffdf52cd2b64c7933e8dbff6069875f0817d630081c4', '9e456c11688f9b86f259ffdf52cd2b64c7933e8dbff6069875f0817d630081c4', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"executed"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', 'e2007760b5acab0659a88106d6abea261440ed812dd2c55ff5be2daec1c73856', 'change on inline (write, medium risk)', '["once"]', NULL, '01a226b9-44e1-70ff-8299-a900f070a46b', '1795946005748', '1795953205748', '1795953205781', '1795946005781', 'https://people.test', 'alice', 'once', NULL, '1795946905789', '1795946005800', NULL, '', '[]', NULL, '[]', NULL, NULL, NULL);
INSERT INTO approvals VALUES ('32055539-0cf4-40e9-a700-c397137fe528', 'approved', '2', 'https://idp.test', 'agent-7', '[]', 'eWWXAgWRL5VlgydaTXROT9dN9BaRwjjP', 'change', 'write', 'write', 'medium', '["default"]', '8a3313e9699f24a41bb0dc1374f578c2a0a7034aafef0a2cf1d89bc6d3d52b1d', 'c5c11cf0eba47ad7dc0dbb3b5db08118d4d982e64b4d138491895dd76547f9ff', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"granted"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[],"session":"eWWXAgWRL5VlgydaTXROT9dN9BaRwjjP"},"confinement":"not applicable"}', '3139a0c69b583e6870efc6e2f9d810126f6fce1964fa46db9da569022a4af3bc', 'change on inline (write, medium risk)', '["once","session"]', '8a3313e9699f24a41bb0dc1374f578c2a0a7034aafef0a2cf1d89bc6d3d52b1d', '01a226b9-4562-757f-893c-c41580dc35bb', '1795946005866', '1795953205866', '1795953205881', '1795946005881', 'https://people.test', 'alice', 'session', NULL, NULL, NULL, NULL, '', '[]', NULL, '[]', NULL, NULL, NULL);
INSERT INTO approvals VALUES ('3f860ede-cbac-4670-8938-36683437c8b8', 'cancelled', '2', 'https://idp.test', 'agent-7', '[]', '', 'change', 'write', 'write', 'medium', '["default"]', '326b459255fa0789d02959ed9e272f89ff2399ded2650bbc87868446c737c46f', '326b459255fa0789d02959ed9e272f89ff2399ded2650bbc87868446c737c46f', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"cancelled"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', '8dbd9a8a1e86976c6dc0a841a64d2236cdcdbe4f84d7ee3ace81897d3d04364b', 'change on inline (write, medium risk)', '["once"]', NULL, '01a226b9-454c-728c-86fb-9fd13e237ddf', '1795946005840', '1795953205840', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '1795946005848', NULL, '', '[]', NULL, '[]', NULL, NULL, NULL);
INSERT INTO approvals VALUES ('8b14de13-281a-4d7b-9efc-b4ac30ff7d07', 'pending', '2', 'https://idp.test', 'agent-7', '[]', '', 'pay', 'write', 'write', 'medium', '["default"]', '1df94a46058da9aa383921d47b09eab080b6ca9744ac3eae9c408ae6c6725b5d', '1df94a46058da9aa383921d47b09eab080b6ca9744ac3eae9c408ae6c6725b5d', '{"tool":"pay","description":"Pays; asks two people","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"half approved"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', 'd04dd76b1c8744ddf7787b1945cc192b7322c14837bb4f26840a82e22ac758ea', 'pay on inline (write, medium risk)', '["once"]', NULL, '01a226b9-4476-7517-bd3f-1071ed330a4c', '1795946005643', '1795953205643', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"digest":"6787115b84f24e5620033b42f78f6c2da7ea080da6c51138b8b9534823cad29d","policies":[{"name":"two-people","distinctPeople":true,"stages":[{"name":"deciders","deciders":{"permissions":[]},"count":2}]}],"reasonRequired":"never","scopes":["once","session","bounded"],"callback":false}', '6787115b84f24e5620033b42f78f6c2da7ea080da6c51138b8b9534823cad29d', '[{"issuer":"https://people.test","subject":"alice","actors":[],"at":1795946005705,"scope":"once","viewDigest":"d04dd76b1c8744ddf7787b1945cc192b7322c14837bb4f26840a82e22ac758ea","version":1,"places":[{"policy":0,"stage":0}]}]', NULL, '[]', NULL, NULL, NULL);
INSERT INTO approvals VALUES ('c8d8e5ee-c851-478c-8a00-30000c11830a', 'pending', '1', 'https://idp.test', 'agent-7', '[]', '', 'change', 'write', 'write', 'medium', '["default"]', '0f5144067c300bbf6d1f624fa075911645a1de02326d7f768f23109821a04891', '0f5144067c300bbf6d1f624fa075911645a1de02326d7f768f23109821a04891', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"pending"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', '541b0feac019fcb1fb0293847f6c69570687b8de25b890406801b7d3833576ec', 'change on inline (write, medium risk)', '["once"]', NULL, '01a226b9-4452-77a9-84bc-704268454d70', '1795946005600', '1795953205600', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '[]', NULL, '[]', NULL, NULL, NULL);
INSERT INTO approvals VALUES ('d14d6e93-7f4b-4e0e-85be-db805d5f71e7', 'denied', '2', 'https://idp.test', 'agent-7', '[]', '', 'change', 'write', 'write', 'medium', '["default"]', '663ce92c17372086bc8d737ea4dec956bde9c8dc2477db468eed1ad824c28baf', '663ce92c17372086bc8d737ea4dec956bde9c8dc2477db468eed1ad824c28baf', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"denied"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', 'fab730076216a70a1af12f26660579e527a6e8f49f1a20c98cf11a3994293003', 'change on inline (write, medium risk)', '["once"]', NULL, '01a226b9-452c-7244-aa80-1dfc3a0a867d', '1795946005808', '1795953205808', NULL, '1795946005822', 'https://people.test', 'alice', NULL, NULL, NULL, '1795946005822', NULL, '', '[]', NULL, '[]', NULL, NULL, NULL);
INSERT INTO approvals VALUES ('d2daceca-b4ff-4a2f-bb80-dfb08e721025', 'executed', '4', 'https://idp.test', 'agent-7', '[]', '', 'refund', 'write', 'write', 'medium', '["default"]', '10829bbcb3f833fa4bc56d711747178b348fab183c77a7787e1475803f643db7', '10829bbcb3f833fa4bc56d711747178b348fab183c77a7787e1475803f643db7', '{"tool":"refund","description":"Refunds; an approver may grant several calls","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"cents":100},"grant":{"covers":"Up to 2 runs of refund by this caller within 600 minutes of the approval, this call included, without asking again. You may grant less.","runs":2,"minutes":600,"arguments":{"cents":"a number from 1 to 500"}},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', 'a8abacb7648a1fed02a23adaf5ea9b16ea10161e23d671e2c20d84222829f120', 'refund on inline (write, medium risk)', '["once","bounded"]', NULL, '01a226b9-4626-72c3-84b2-b4b06d6ec5d4', '1795946006059', '1795953206059', '1795953206101', '1795946006101', 'https://people.test', 'alice', 'bounded', NULL, '1795946906110', '1795946006137', NULL, '', '[]', NULL, '[]', NULL, '{"boundsKey":"c425b1d9a5dadcfea9b7200ece881a5878dcdf0a83f9c6a4d63e7157de78c602","isElevated":false,"risk":"medium","rules":["default"],"terms":{"runs":2,"minutes":600,"arguments":{"cents":{"min":1,"max":500}}},"salt":"10829bbcb3f833fa4bc56d711747178b348fab183c77a7787e1475803f643db7","digests":{"cents":"c15b8929686b2a1715c800151334c2c66449351bfd5c4069aed3374481ae656d"}}', '{"runs":2,"minutes":600,"arguments":{"cents":{"min":1,"max":500}}}');
INSERT INTO approvals VALUES ('df0f3534-d2ec-41d0-9e78-ff7de071d18f', 'approved', '2', 'https://idp.test', 'agent-7', '[]', '', 'change', 'write', 'write', 'medium', '["default"]', '74c985da81a16d56dc29da13e93498006db01319e36c7a8c84ae126f516af8d6', '74c985da81a16d56dc29da13e93498006db01319e36c7a8c84ae126f516af8d6', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"approved"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', 'cb00c01820d82a622000f732edc51253fa551074c8d41d5220b96d169876e5c0', 'change on inline (write, medium risk)', '["once"]', NULL, '01a226b9-43b2-723a-ab96-3de9f4968ca0', '1795946005469', '1795953205469', '1795953205555', '1795946005555', 'https://people.test', 'alice', 'once', NULL, NULL, NULL, NULL, '', '[]', NULL, '[]', NULL, NULL, NULL);
CREATE INDEX approvals_by_age ON approvals USING btree (created_at, id);
CREATE INDEX approvals_by_call ON approvals USING btree (issuer, subject, call_digest, decided_at);
CREATE INDEX approvals_by_caller ON approvals USING btree (issuer, subject, created_at, id);
CREATE INDEX approvals_by_plan ON approvals USING btree (issuer, subject, plan_digest, decided_at);
CREATE INDEX approvals_by_state ON approvals USING btree (state, created_at, id);
CREATE INDEX approvals_by_tool ON approvals USING btree (tool, decided_at);
CREATE UNIQUE INDEX approvals_coalesce ON approvals USING btree (issuer, subject, session, plan_digest) WHERE (state = 'pending'::text);
CREATE INDEX approvals_ended ON approvals USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX approvals_leased ON approvals USING btree (lease_until) WHERE (state = 'claimed'::text);
CREATE INDEX approvals_to_decide ON approvals USING btree (decide_by) WHERE (state = 'pending'::text);
CREATE INDEX approvals_to_escalate ON approvals USING btree (escalate_at) WHERE (state = 'pending'::text);
CREATE INDEX approvals_to_execute ON approvals USING btree (execute_by) WHERE (state = 'approved'::text);
CREATE TABLE policy_flow_labels (
  issuer text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  label text COLLATE "C" NOT NULL,
  since bigint NOT NULL,
  until bigint NOT NULL,
  tool text COLLATE "C" NOT NULL,
  trace_id text COLLATE "C" NOT NULL,
  CHECK ((label = ANY (ARRAY['private'::text, 'untrusted'::text, 'lost'::text, 'cleared'::text]))),
  PRIMARY KEY (issuer, subject, session, label)
);
INSERT INTO policy_flow_labels VALUES ('https://idp.test', 'reader', '', 'untrusted', '1795946006048', '1796032406048', 'read_letter', '01a226b9-461a-7146-b7cd-cf3c6a8753dc');
CREATE INDEX policy_flow_labels_expiry ON policy_flow_labels USING btree (until);
CREATE TABLE policy_flow_secret (
  id bigint NOT NULL,
  secret text COLLATE "C" NOT NULL,
  PRIMARY KEY (id)
);
INSERT INTO policy_flow_secret VALUES ('1', '4aa51440c948b1d499fb3ca9ab25cc722454f095663d55cc449343897c682dd1');
CREATE TABLE policy_flow_sources (
  issuer text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  until bigint NOT NULL,
  tool text COLLATE "C" NOT NULL,
  trace_id text COLLATE "C" NOT NULL,
  reference text COLLATE "C" NOT NULL,
  labels text COLLATE "C" NOT NULL,
  fields text COLLATE "C" NOT NULL,
  bytes bigint NOT NULL,
  prints bytea NOT NULL,
  PRIMARY KEY (issuer, subject, id)
);
INSERT INTO policy_flow_sources VALUES ('https://idp.test', 'agent-7', '', '0bb8e97b-2a74-4952-b843-af34d389131e', '1795946005797', '1796032405797', 'change', '01a226b9-451b-7679-babf-80d4c69b92f4', '', '[]', '[{"path":"did","isTrusted":false},{"path":"by","isTrusted":false}]', '18', E'\\x324eaf268beb6a6bf7d03ac4e5150d8a0001');
INSERT INTO policy_flow_sources VALUES ('https://idp.test', 'agent-7', '', '3c9db158-2110-48af-9fcb-0bd5a56f392e', '1795946006029', '1796032406029', 'metered', '01a226b9-45f9-7256-8053-b1529dd8eb73', '', '[]', '[{"path":"ran","isTrusted":false}]', '9', E'\\x8beb6a6be5150d8a00');
INSERT INTO policy_flow_sources VALUES ('https://idp.test', 'agent-7', '', '50b997aa-0d94-4a1a-8a45-9bc3380437f2', '1795946005975', '1796032405975', 'change_freely', '01a226b9-45bf-71d6-8d13-3380087895a1', '', '[]', '[{"path":"did","isTrusted":false},{"path":"by","isTrusted":false}]', '9', E'\\x8beb6a6be5150d8a01');
INSERT INTO policy_flow_sources VALUES ('https://idp.test', 'agent-7', '', 'b749eddf-f529-4302-aab1-dcb502c67e28', '1795946006039', '1796032406039', 'metered', '01a226b9-4613-7450-b8b3-c4af77751fca', '', '[]', '[{"path":"ran","isTrusted":false}]', '9', E'\\x8beb6a6be5150d8a00');
INSERT INTO policy_flow_sources VALUES ('https://idp.test', 'agent-7', '', 'd35109d4-16f3-4d54-81a8-7afdc7b0d00d', '1795946005381', '1796032405381', 'look', '01a226b9-4350-768f-966e-0afe8a6a5841', '', '[]', '[{"path":"did","isTrusted":false},{"path":"by","isTrusted":false}]', '9', E'\\x8beb6a6be5150d8a01');
INSERT INTO policy_flow_sources VALUES ('https://idp.test', 'reader', '', '38c0660e-7183-4f41-a98e-a47b9ba9c27b', '1795946006048', '1796032406048', 'read_letter', '01a226b9-461a-7146-b7cd-cf3c6a8753dc', '', '["untrusted"]', '[{"path":"text","isTrusted":false}]', '54', E'\\x0ff387c004e229eedde88bfa78bf5e312c34525de2a26d25e51c7e8edf6a32ec9bd5474d579c94a764bba3656e33eb98000000000000');
CREATE INDEX policy_flow_sources_by_age ON policy_flow_sources USING btree (issuer, subject, at, id, until, bytes, labels);
CREATE INDEX policy_flow_sources_expiry ON policy_flow_sources USING btree (until);
CREATE TABLE policy_halts (
  id text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  issuer text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  reason text COLLATE "C" NOT NULL,
  cancels_running bigint NOT NULL,
  set_issuer text COLLATE "C" NOT NULL,
  set_subject text COLLATE "C" NOT NULL,
  set_at bigint NOT NULL,
  until bigint,
  CHECK ((kind = ANY (ARRAY['all'::text, 'tool'::text, 'system'::text, 'caller'::text, 'session'::text]))),
  PRIMARY KEY (id)
);
INSERT INTO policy_halts VALUES ('e703ddef-ed91-4e4a-b48f-341ab162c623', 'tool', '', 'halted', 'for the next version', '0', 'https://people.test', 'alice', '1795946005986', NULL);
CREATE TABLE policy_quota_use (
  id text COLLATE "C" NOT NULL,
  quota text COLLATE "C" NOT NULL,
  unit text COLLATE "C" NOT NULL,
  issuer text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  tool text COLLATE "C" NOT NULL,
  system text COLLATE "C" NOT NULL,
  starts_at bigint NOT NULL,
  ends_at bigint NOT NULL,
  used bigint NOT NULL,
  epoch bigint NOT NULL,
  PRIMARY KEY (id)
);
INSERT INTO policy_quota_use VALUES ('3y-w9xh8o-a28pHTIg1FZp3EIZqyGZjf7Zfn1luYZTg', 'metered', 'calls', 'https://idp.test', 'agent-7', '', '', '1793491200000', '1796083200000', '2', '0');
CREATE INDEX policy_quota_use_age ON policy_quota_use USING btree (ends_at);
