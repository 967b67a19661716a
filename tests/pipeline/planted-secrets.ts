import fc from "fast-check";
import type { Json } from "../../src/core/types.ts";
import { classOf, DIGIT } from "../../src/detection/views/characters.ts";
import { TOKEN_FORMATS } from "../detection/secret-examples.ts";
import { type Next, numbers, pick } from "../eval/corpora.ts";

const LETTERS = [..."abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"];
const ALL = [...LETTERS, "-", "_"];

export function random(next: Next, length: number, characters: readonly string[] = LETTERS): string {
  let text = "";
  while (text.length < length) text += pick(next, characters);
  return text;
}

/** What must not come out, and the text that it stands in. */
export interface Secret {
  readonly secret: string;
  readonly text: string;
}

function token(next: Next): Secret {
  const { prefix, classes, min } = pick(next, TOKEN_FORMATS);
  const characters = ALL.filter((one) => (classOf(one.charCodeAt(0)) & classes) !== 0);
  // Letters and digits both, as in every real one: what has neither is a word.
  const secret = `${prefix}${random(next, min, characters).slice(2)}${pick(next, characters.filter(isDigit))}${random(next, 1, characters)}`;
  return { secret, text: pick(next, [`using ${secret} now`, secret, `{"v":"${secret}"}`, `x=${secret};`]) };
}

function isDigit(one: string): boolean {
  return (classOf(one.charCodeAt(0)) & DIGIT) !== 0;
}

function privateKey(next: Next): Secret {
  const label = pick(next, ["RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY"]);
  const secret = random(next, 64);
  const end = pick(next, ["\n", "\\n"]);
  return {
    secret,
    text: `-----BEGIN ${label}-----${end}${secret}${end}${random(next, 22)}==${end}-----END ${label}-----`,
  };
}

function dsn(next: Next): Secret {
  const secret = random(next, 10);
  const scheme = pick(next, ["postgres", "mysql", "amqp", "redis", "mongodb+srv", "https"]);
  return { secret, text: `connect ${scheme}://app:${secret}@db.internal:5432/orders` };
}

/** With a digit, as nearly all have: letters alone may be a word beside a `token` or a `key`. */
function assignment(next: Next): Secret {
  const secret = `${random(next, 8)}7${random(next, 8)}`;
  const written = pick(next, [
    "password=~",
    '"db_password":"~"',
    "API_KEY=~",
    "export CLIENT_SECRET='~'",
    "X-Api-Key: ~",
  ]);
  return { secret, text: written.replace("~", () => secret) };
}

function jwt(next: Next): Secret {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const secret = `${part({ alg: "ES256", typ: "JWT" })}.${part({ sub: random(next, 8) })}.${random(next, 86)}`;
  return { secret, text: pick(next, [`Authorization: Bearer ${secret}`, secret]) };
}

export const KINDS = [token, token, token, privateKey, dsn, assignment, jwt];

/** Of any tree with a secret at any path, as a value or as a key, nothing of the secret is in what `release` returns. */
export function noneSurvives(release: (tree: Json) => { readonly value: Json }) {
  const path = fc.letrec<{ tree: (leaf: Json) => Json }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 8 },
      fc.constant((leaf: Json) => leaf),
      tie("tree").map((inner) => (leaf: Json) => [1, inner(leaf)]),
      fc.tuple(fc.string(), tie("tree")).map(([key, inner]) => (leaf: Json) => ({ [key]: inner(leaf), z: "" })),
    ),
  })).tree;
  return fc.property(path, fc.integer(), fc.boolean(), (around, seed, isKey) => {
    const { secret, text } = pick(numbers(seed), KINDS)(numbers(seed + 1));
    const left = JSON.stringify(release([around(isKey ? { [text]: 1 } : text)]).value);
    if (left.includes(secret)) throw new Error(`released: ${text}`);
  });
}
