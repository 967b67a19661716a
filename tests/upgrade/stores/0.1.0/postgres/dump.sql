CREATE TABLE approval_counters (
  name text COLLATE "C" NOT NULL,
  value bigint NOT NULL,
  PRIMARY KEY (name)
);
INSERT INTO approval_counters VALUES ('events', '17');
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
  PRIMARY KEY (seq)
);
INSERT INTO approval_events VALUES ('1', '1795945989393', 'approval.requested', '1b2a0614-8f02-4b67-8cfb-709f916e40ec', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('10', '1795945989676', 'approval.requested', 'c0992125-09eb-4458-981e-52fa50072826', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('11', '1795945989686', 'approval.denied', 'c0992125-09eb-4458-981e-52fa50072826', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('12', '1795945989693', 'approval.requested', '6e657c2e-6800-415e-89c6-a05f5efdef7d', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('13', '1795945989701', 'approval.cancelled', '6e657c2e-6800-415e-89c6-a05f5efdef7d', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('14', '1795945989725', 'approval.requested', '2fbacab8-089a-4a88-8c2c-1e3e358578b0', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('15', '1795945989736', 'approval.approved', '2fbacab8-089a-4a88-8c2c-1e3e358578b0', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('16', '1795945989736', 'grant.created', '3d496b72-8a96-4836-b5e3-5c76cd5613de', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('17', '1795945989755', 'session.mode', '6VsSVemjqtKmsCAOkTpEfAmejHQZ-PVL', NULL, 'autoEdit', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('2', '1795945989517', 'approval.approved', '1b2a0614-8f02-4b67-8cfb-709f916e40ec', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('3', '1795945989552', 'approval.requested', 'e1835813-3875-48f2-8019-b6402000b2ee', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('4', '1795945989579', 'approval.requested', '11125b07-2b87-4dcc-8b03-4553bc031677', 'pay', 'pay on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('5', '1795945989628', 'approval.voted', '11125b07-2b87-4dcc-8b03-4553bc031677', 'pay', 'pay on inline (write, medium risk); two-people, deciders: 1 of 2', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('6', '1795945989641', 'approval.requested', 'd8c03a62-c16b-4846-8d43-7e03eabf1560', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('7', '1795945989651', 'approval.approved', 'd8c03a62-c16b-4846-8d43-7e03eabf1560', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('8', '1795945989658', 'approval.claimed', 'd8c03a62-c16b-4846-8d43-7e03eabf1560', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
INSERT INTO approval_events VALUES ('9', '1795945989666', 'approval.executed', 'd8c03a62-c16b-4846-8d43-7e03eabf1560', 'change', 'change on inline (write, medium risk)', 'https://idp.test', 'agent-7');
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
  PRIMARY KEY (id)
);
INSERT INTO approval_grants VALUES ('3d496b72-8a96-4836-b5e3-5c76cd5613de', 'https://idp.test', 'agent-7', '0KZ7Vo7XQfbiiGJQ88vLovL1B_QqUGGZ', 'change', 'd8f7a39771f634acb5e698608df90f80f9a3c93bf8b6f76d68770cd8d8b35c55', 'change on inline (write, medium risk)', '2fbacab8-089a-4a88-8c2c-1e3e358578b0', 'https://people.test', 'alice', '1795945989736', '1795974789736', NULL);
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
INSERT INTO approval_keys VALUES ('https://idp.test', 'agent-7', 'change_freely', '68c780cd132a0299c7cd3fa8649783cbc2872a98d90cd4ed6b9696e3c61c4c68', 'b79c5b75016c0bece3a0f9aecca0e18196745ffb7f3b3059a335274eb7d99485', 'answered', '1795946889762', '1796032389767', '135', '{"result":{"did":"once","by":6101},"filteredFields":[],"outputHash":"71f5530119ef9b196fc9bdabe360c1ece250ba2ae468ea41d621093391b69552"}');
INSERT INTO approval_keys VALUES ('https://idp.test', 'agent-7', 'hang', '01e3c9895eb9c26c73881fcce39f5084a132198dd646b02ff377b7033dd7a47c', 'a564fb563d734d8f6abd475d7f26fe297de8d8cae517447d9db13c32befafa5e', 'running', '1795946892199', '1796033292199', '0', NULL);
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
INSERT INTO approval_schema VALUES ('3');
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
INSERT INTO approval_sessions VALUES ('https://idp.test', 'agent-7', '0KZ7Vo7XQfbiiGJQ88vLovL1B_QqUGGZ', '1', 'default', NULL, NULL, NULL, '1795945989708', '1795974789708', NULL);
INSERT INTO approval_sessions VALUES ('https://idp.test', 'agent-7', '6VsSVemjqtKmsCAOkTpEfAmejHQZ-PVL', '1', 'autoEdit', '1795953189754', 'https://people.test', 'alice', '1795945989749', '1795974789749', NULL);
CREATE INDEX approval_sessions_by_id ON approval_sessions USING btree (id);
CREATE INDEX approval_sessions_expiry ON approval_sessions USING btree (expires_at);
CREATE INDEX approval_sessions_modes ON approval_sessions USING btree (mode_until) WHERE (mode_until IS NOT NULL);
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
  PRIMARY KEY (id),
  CHECK ((state = ANY (ARRAY['pending'::text, 'approved'::text, 'denied'::text, 'expired'::text, 'cancelled'::text, 'revoked'::text, 'claimed'::text, 'executed'::text, 'failed'::text, 'in_doubt'::text])))
);
INSERT INTO approvals VALUES ('11125b07-2b87-4dcc-8b03-4553bc031677', 'pending', '2', 'https://idp.test', 'agent-7', '[]', '', 'pay', 'write', 'write', 'medium', '["default"]', 'f4f0a96cd336471e26886318a31de1e2acfffba9426da4bdb86e59876f70cd8f', 'f4f0a96cd336471e26886318a31de1e2acfffba9426da4bdb86e59876f70cd8f', '{"tool":"pay","description":"Pays; asks two people","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"half approved"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', '7a9cd7f8e7275fbc83e42116c001fd88efd0ce4afb898938bfb04218efbf571b', 'pay on inline (write, medium risk)', '["once"]', NULL, '01a226b9-05c9-752f-86c9-f261d154421d', '1795945989579', '1795953189579', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"digest":"aed98e5460a0e1e31eb7e6bccb2c72c2228208e282b8a0194b14e5979be79c7e","policies":[{"name":"two-people","distinctPeople":true,"stages":[{"name":"deciders","deciders":{"permissions":[]},"count":2}]}],"reasonRequired":"never","scopes":["once","session"],"callback":false}', 'aed98e5460a0e1e31eb7e6bccb2c72c2228208e282b8a0194b14e5979be79c7e', '[{"issuer":"https://people.test","subject":"alice","actors":[],"at":1795945989628,"scope":"once","viewDigest":"7a9cd7f8e7275fbc83e42116c001fd88efd0ce4afb898938bfb04218efbf571b","version":1,"places":[{"policy":0,"stage":0}]}]', NULL);
INSERT INTO approvals VALUES ('1b2a0614-8f02-4b67-8cfb-709f916e40ec', 'approved', '2', 'https://idp.test', 'agent-7', '[]', '', 'change', 'write', 'write', 'medium', '["default"]', '3a12cf22327cc74fc0cacc1723eb446bd0fb1215233b64235e12939637b70e01', '3a12cf22327cc74fc0cacc1723eb446bd0fb1215233b64235e12939637b70e01', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"approved"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', '4004e071c49000dc0db4a006454b04c7cf6c7a9c1242f35e4cf4c6b691064858', 'change on inline (write, medium risk)', '["once"]', NULL, '01a226b9-0508-7077-ab71-92bafe307e69', '1795945989393', '1795953189393', '1795953189517', '1795945989517', 'https://people.test', 'alice', 'once', NULL, NULL, NULL, NULL, '', '[]', NULL);
INSERT INTO approvals VALUES ('2fbacab8-089a-4a88-8c2c-1e3e358578b0', 'approved', '2', 'https://idp.test', 'agent-7', '[]', '0KZ7Vo7XQfbiiGJQ88vLovL1B_QqUGGZ', 'change', 'write', 'write', 'medium', '["default"]', 'd8f7a39771f634acb5e698608df90f80f9a3c93bf8b6f76d68770cd8d8b35c55', '312ea709e1e1c24a3b4e26f043924931176875b9a0046fabdf0b6becb7506d0e', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"granted"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[],"session":"0KZ7Vo7XQfbiiGJQ88vLovL1B_QqUGGZ"},"confinement":"not applicable"}', '858dac0f061da8b7101d869c9683fa8f5430fd647499abbca236c2e94708c342', 'change on inline (write, medium risk)', '["once","session"]', 'd8f7a39771f634acb5e698608df90f80f9a3c93bf8b6f76d68770cd8d8b35c55', '01a226b9-0651-7607-9a74-940d029d8ac4', '1795945989725', '1795953189725', '1795953189736', '1795945989736', 'https://people.test', 'alice', 'session', NULL, NULL, NULL, NULL, '', '[]', NULL);
INSERT INTO approvals VALUES ('6e657c2e-6800-415e-89c6-a05f5efdef7d', 'cancelled', '2', 'https://idp.test', 'agent-7', '[]', '', 'change', 'write', 'write', 'medium', '["default"]', '1b8bcaedba08455890d834354863a8a93677c2c74bd02f2236266cc58e7128b2', '1b8bcaedba08455890d834354863a8a93677c2c74bd02f2236266cc58e7128b2', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"cancelled"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', 'e65eb5b8dc10f5f8da849d866241a3e2c59c4768888bf211ed62db6cb07b3ce9', 'change on inline (write, medium risk)', '["once"]', NULL, '01a226b9-063b-74a2-b804-34936ab96200', '1795945989693', '1795953189693', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '1795945989701', NULL, '', '[]', NULL);
INSERT INTO approvals VALUES ('c0992125-09eb-4458-981e-52fa50072826', 'denied', '2', 'https://idp.test', 'agent-7', '[]', '', 'change', 'write', 'write', 'medium', '["default"]', '83b3424f62a4cb0f64e4eb8d016061a8b1df06ee1550ed3655563fee89bc9089', '83b3424f62a4cb0f64e4eb8d016061a8b1df06ee1550ed3655563fee89bc9089', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"denied"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', '75d3996fed6535703c3d55175f6a48d51f09375faba4ccc02388b75631b4de07', 'change on inline (write, medium risk)', '["once"]', NULL, '01a226b9-0629-7112-8d3c-3f9958e01c36', '1795945989676', '1795953189676', NULL, '1795945989686', 'https://people.test', 'alice', NULL, NULL, NULL, '1795945989686', NULL, '', '[]', NULL);
INSERT INTO approvals VALUES ('d8c03a62-c16b-4846-8d43-7e03eabf1560', 'executed', '4', 'https://idp.test', 'agent-7', '[]', '', 'change', 'write', 'write', 'medium', '["default"]', '343242996380b81c361b398ae346df43fb333cc05ffa729e4b27885f217b4af8', '343242996380b81c361b398ae346df43fb333cc05ffa729e4b27885f217b4af8', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"executed"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', '8288d6c0ba3cefaaedab5e896f0d12ca9eb99c20cda82696036895889f5e574a', 'change on inline (write, medium risk)', '["once"]', NULL, '01a226b9-0605-7647-9e17-ae7630f4c67a', '1795945989641', '1795953189641', '1795953189651', '1795945989651', 'https://people.test', 'alice', 'once', NULL, '1795946889658', '1795945989666', NULL, '', '[]', NULL);
INSERT INTO approvals VALUES ('e1835813-3875-48f2-8019-b6402000b2ee', 'pending', '1', 'https://idp.test', 'agent-7', '[]', '', 'change', 'write', 'write', 'medium', '["default"]', '4ab34d37cbfd73ea0b55ab258e63ae148196d398dd9ccd61666e46b081f80871', '4ab34d37cbfd73ea0b55ab258e63ae148196d398dd9ccd61666e46b081f80871', '{"tool":"change","description":"Changes something; asks a person","classification":"write","category":"write","risk":"medium","rules":["default"],"notes":[],"target":{"system":"inline","kind":"inline"},"arguments":{"what":"pending"},"requester":{"issuer":"https://idp.test","subject":"agent-7","actors":[]},"confinement":"not applicable"}', '63c6003dbb4cd5c95787cd5d1894890302de99df6bd8f205d895ad362a76e923', 'change on inline (write, medium risk)', '["once"]', NULL, '01a226b9-05a9-770b-b9a9-d0fc73a07800', '1795945989552', '1795953189552', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '[]', NULL);
CREATE INDEX approvals_by_age ON approvals USING btree (created_at, id);
CREATE INDEX approvals_by_call ON approvals USING btree (issuer, subject, call_digest, decided_at);
CREATE INDEX approvals_by_caller ON approvals USING btree (issuer, subject, created_at, id);
CREATE INDEX approvals_by_plan ON approvals USING btree (issuer, subject, plan_digest, decided_at);
CREATE INDEX approvals_by_state ON approvals USING btree (state, created_at, id);
CREATE UNIQUE INDEX approvals_coalesce ON approvals USING btree (issuer, subject, session, plan_digest) WHERE (state = 'pending'::text);
CREATE INDEX approvals_ended ON approvals USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX approvals_leased ON approvals USING btree (lease_until) WHERE (state = 'claimed'::text);
CREATE INDEX approvals_to_decide ON approvals USING btree (decide_by) WHERE (state = 'pending'::text);
CREATE INDEX approvals_to_execute ON approvals USING btree (execute_by) WHERE (state = 'approved'::text);
