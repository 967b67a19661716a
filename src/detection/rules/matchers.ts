import { matchAssignment } from "../secrets/assignment.ts";
import { matchBelow, matchCodes, matchJwt, matchManifest, matchUrlPassword } from "../secrets/matchers.ts";
import { NAME_ANCHORS } from "../secrets/names.ts";
import { matchPrivateKey } from "../secrets/private-key.ts";
import { matchCopy, matchInsert, readCreatedTable } from "../secrets/sql.ts";
import type { MatcherRule } from "./rule.ts";

const CODE_WORDS = ["recovery", "backup", "scratch", "emergency"].flatMap((word) =>
  [" ", "_", "-", ""].map((gap) => `${word}${gap}code`),
);

/** Secrets that no pattern can describe, with a form of their own. */
export const MATCHER_RULES: readonly MatcherRule[] = [
  {
    id: "private-key",
    anchors: ["-----begin "],
    steps: 400,
    matcher: matchPrivateKey,
    matches: ["«-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIAaBcDeFgHiJkLmNoPqRsTuV\n-----END EC PRIVATE KEY-----»"],
    misses: ["-----BEGIN CERTIFICATE-----\nMHcCAQEEIAaBcDeFgHiJkLmNoPqRsTuV\n-----END CERTIFICATE-----"],
  },
  {
    id: "jwt",
    anchors: ["eyj"],
    steps: 60,
    matcher: matchJwt,
    matches: ["token «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl»"],
    misses: ["eyJhbGciOiJIUzI1NiJ9"],
  },
  {
    id: "url-password",
    anchors: ["://"],
    steps: 200,
    matcher: matchUrlPassword,
    matches: ["postgres://app:«s3cr3t»@db:5432/x"],
    misses: ["postgres://user:password@host:5432/db", "http://localhost:8080/a@b"],
  },
  {
    id: "recovery-code",
    anchors: [...CODE_WORDS, "recovery key", "recovery_key", "recoverykey", "2fa setup key", "2fa key"],
    steps: 1_500,
    matcher: matchCodes,
    matches: ["Backup codes: «ab3d5-x8k2p, q7w2e-z9m4n»"],
    misses: ["backup codes are shown once"],
  },
  {
    id: "password-below",
    anchors: [":\n\n", ":\r\n\r\n", ":\n  "],
    steps: 150,
    matcher: matchBelow,
    matches: ["Use the following password to proceed:\n\n«aB3dE5fG7hJ9kL1m»\n"],
    misses: ["Use the following steps to proceed:\n\naB3dE5fG7hJ9kL1m\n"],
  },
  {
    id: "secret-data",
    anchors: ["kind: secret", '"kind": "secret', '"kind":"secret'],
    steps: 40,
    matcher: matchManifest,
    matches: ["kind: Secret\ndata:\n  a: «c3VwM3JjZmc=»\n"],
    misses: ["kind: ConfigMap\ndata:\n  a: c3VwM3JjZmc=\n"],
  },
];

/** Values in the columns of SQL. */
export const SQL_RULES: readonly MatcherRule[] = [
  {
    id: "password-column",
    anchors: ["into "],
    steps: 40,
    matcher: matchInsert,
    matches: ["INSERT INTO users (name, password) VALUES ('bob', '«hunter2x»')"],
    misses: ["INSERT INTO users (name, password) VALUES (?, ?)"],
  },
  {
    id: "created-table",
    anchors: ["create table "],
    steps: 40,
    matcher: readCreatedTable,
    misses: ["CREATE TABLE users (id int, password text)"],
  },
  {
    id: "password-column",
    anchors: ["copy "],
    steps: 40,
    matcher: matchCopy,
    matches: ["COPY users (name, password) FROM stdin;\nbob\t«hunter2x»\n"],
    misses: ["COPY users (id, name) FROM stdin;\n1\tbob\n"],
  },
];

/** Values next to or below a name that identifies a secret. */
export const NAME_RULES: readonly MatcherRule[] = [
  {
    id: "assignment",
    anchors: NAME_ANCHORS,
    steps: 60,
    matcher: matchAssignment,
    remembers: true,
    matches: ["password: «hunter2»", "API_KEY=«aB3dE5fG7hJ9»", "name,password\nbob,«hunter2x»"],
    misses: ["password: string;", "page_token=CAUQAA12345", "password=$PW"],
  },
];
