import { describe, expect, test } from "bun:test";
import { Refusal } from "../../src/core/errors.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import {
  AGENTS_AUDIENCE,
  AGENTS_ISSUER,
  agentsProfile,
  forgeToken,
  goodClaims,
  makeSigningKey,
  NOW_SECONDS,
} from "../support/tokens.ts";

const key = makeSigningKey("EdDSA", "k1");
const context = createCallerVerifier({ issuers: [agentsProfile([key])], clock: () => NOW_SECONDS * 1000 });
const header = { alg: "EdDSA", kid: "k1", typ: "JWT" };

const MALFORMED = "The token is malformed: send exactly one signed JWT, as Authorization: Bearer <token>.";
const EXPIRED = "The token has expired: get a new one and call again.";
const NOT_MEANT = "The token is not meant for this service: ask for one with the issuer and audience that it expects.";
const INVALID = "The token is not valid: get a new one from your issuer.";

type Row = readonly [title: string, payload: string | Readonly<Record<string, unknown>>, message: string];

/** The claims' JSON text with one claim's value replaced by raw text that JSON.stringify would not write. */
function withRaw(claim: string, raw: string): string {
  return JSON.stringify(goodClaims({ [claim]: "@raw@" })).replace('"@raw@"', () => raw);
}

/** Every wrong type for one claim. */
function wrongTypes(claim: string, values: readonly unknown[], message = INVALID): Row[] {
  const missing: Row = [`${claim} missing`, goodClaims({ [claim]: undefined }), message];
  const wrong = values.map(
    (value): Row => [`${claim} ${JSON.stringify(value)}`, { ...goodClaims(), [claim]: value }, message],
  );
  return [missing, ...wrong];
}

const FUTURE =
  "The token is from the future: the clocks of its issuer and of this service differ. Call again in a minute, or tell the service's operators.";
const WRONG_TIMES = [null, true, "", "1800000600", [NOW_SECONDS + 600], { t: NOW_SECONDS + 600 }, [], {}, -1];

const TIMES: readonly Row[] = [
  ...wrongTypes("exp", WRONG_TIMES),
  ...wrongTypes("iat", WRONG_TIMES),
  ...wrongTypes("nbf", WRONG_TIMES).slice(1),
  ["exp 1e999", withRaw("exp", "1e999"), INVALID],
  ["exp -1e999", withRaw("exp", "-1e999"), INVALID],
  ["iat 1e999", withRaw("iat", "1e999"), INVALID],
  ["iat -1e999", withRaw("iat", "-1e999"), INVALID],
  ["nbf -1e999", withRaw("nbf", "-1e999"), INVALID],
  ["exp and iat 1e999", withRaw("exp", "1e999").replace(/"iat":\d+/, '"iat":1e999'), INVALID],
  ["exp NaN", withRaw("exp", "NaN"), MALFORMED],
  ["exp Infinity", withRaw("exp", "Infinity"), MALFORMED],
  ["exp 0", goodClaims({ exp: 0 }), INVALID],
  ["exp 0 and iat 0", goodClaims({ exp: 0, iat: 0 }), INVALID],
  ["exp in milliseconds", goodClaims({ exp: (NOW_SECONDS + 600) * 1000 }), INVALID],
  ["exp and iat in milliseconds", goodClaims({ exp: (NOW_SECONDS + 600) * 1000, iat: NOW_SECONDS * 1000 }), INVALID],
  ["exp in the far future", goodClaims({ exp: 9_999_999_999 }), INVALID],
  ["a lifetime of an hour and a second", goodClaims({ iat: NOW_SECONDS, exp: NOW_SECONDS + 3601 }), INVALID],
  ["exp equal to iat", goodClaims({ iat: NOW_SECONDS, exp: NOW_SECONDS }), INVALID],
  ["exp before iat", goodClaims({ iat: NOW_SECONDS + 4, exp: NOW_SECONDS + 3 }), INVALID],
  ["iat in the future", goodClaims({ iat: NOW_SECONDS + 6 }), FUTURE],
  ["iat long ago", goodClaims({ iat: NOW_SECONDS - 86_400 }), INVALID],
  ["nbf in the future", goodClaims({ nbf: NOW_SECONDS + 6 }), FUTURE],
  ["expired by the tolerance", goodClaims({ iat: NOW_SECONDS - 600, exp: NOW_SECONDS - 5 }), EXPIRED],
  ["expired an hour ago", goodClaims({ iat: NOW_SECONDS - 7000, exp: NOW_SECONDS - 3600 }), EXPIRED],
];

const AUDIENCES: readonly Row[] = [
  ...wrongTypes("aud", [
    null,
    1,
    true,
    {},
    { 0: AGENTS_AUDIENCE },
    [AGENTS_AUDIENCE, null],
    [AGENTS_AUDIENCE, 1],
    [[AGENTS_AUDIENCE]],
  ]),
  ["aud empty", goodClaims({ aud: "" }), NOT_MEANT],
  ["aud empty array", goodClaims({ aud: [] }), NOT_MEANT],
  ["aud of another", goodClaims({ aud: "billing" }), NOT_MEANT],
  ["aud array without ours", goodClaims({ aud: ["a", "b"] }), NOT_MEANT],
  ["aud that begins with ours", goodClaims({ aud: `${AGENTS_AUDIENCE}-operators` }), NOT_MEANT],
  ["aud that ours begins with", goodClaims({ aud: "safe-tool" }), NOT_MEANT],
  ["aud in capitals", goodClaims({ aud: AGENTS_AUDIENCE.toUpperCase() }), NOT_MEANT],
  ["aud with a space", goodClaims({ aud: `${AGENTS_AUDIENCE} ` }), NOT_MEANT],
  ["aud list in a string", goodClaims({ aud: `other ${AGENTS_AUDIENCE}` }), NOT_MEANT],
  ["aud star", goodClaims({ aud: "*" }), NOT_MEANT],
  ["aud of 65 members", goodClaims({ aud: Array(65).fill(AGENTS_AUDIENCE) }), INVALID],
];

const ISSUERS: readonly Row[] = [
  ...wrongTypes("iss", [null, 1, "", [AGENTS_ISSUER], { iss: AGENTS_ISSUER }, "__proto__", "constructor"], NOT_MEANT),
  ["iss with a slash", goodClaims({ iss: `${AGENTS_ISSUER}/` }), NOT_MEANT],
  ["iss in capitals", goodClaims({ iss: AGENTS_ISSUER.toUpperCase() }), NOT_MEANT],
  ["iss with a space", goodClaims({ iss: ` ${AGENTS_ISSUER}` }), NOT_MEANT],
  ["iss by http", goodClaims({ iss: "http://idp.test" }), NOT_MEANT],
  ["iss that begins with ours", goodClaims({ iss: `${AGENTS_ISSUER}.evil.test` }), NOT_MEANT],
  ["iss with a look-alike letter", goodClaims({ iss: "https://\u0456dp.test" }), NOT_MEANT],
  ["iss with a port", goodClaims({ iss: `${AGENTS_ISSUER}:443` }), NOT_MEANT],
];

const SUBJECTS: readonly Row[] = [
  ...wrongTypes("sub", [null, 0, 7, true, "", [], ["a"], {}, { sub: "a" }]),
  ["sub of 257 characters", goodClaims({ sub: "a".repeat(257) }), INVALID],
  ["sub of blanks", goodClaims({ sub: "   " }), INVALID],
  ["sub with a blank in front", goodClaims({ sub: " admin" }), INVALID],
  ["sub with a blank behind", goodClaims({ sub: "admin " }), INVALID],
  ["sub anonymous", goodClaims({ sub: "anonymous" }), INVALID],
  ["sub Anonymous", goodClaims({ sub: "Anonymous" }), INVALID],
  ...[
    ["NUL", "\u0000"],
    ["newline", "\n"],
    ["carriage return", "\r"],
    ["tab", "\t"],
    ["escape", "\u001b[31m"],
    ["delete", "\u007f"],
    ["C1 control", "\u009b"],
    ["zero width space", "\u200b"],
    ["zero width joiner", "\u200d"],
    ["soft hyphen", "\u00ad"],
    ["byte order mark", "\ufeff"],
    ["right-to-left override", "\u202e"],
    ["isolate", "\u2066"],
    ["Arabic letter mark", "\u061c"],
    ["line separator", "\u2028"],
    ["paragraph separator", "\u2029"],
    ["no-break space", "\u00a0"],
    ["ideographic space", "\u3000"],
    ["Hangul filler", "\u3164"],
    ["Braille blank", "\u2800"],
    ["variation selector", "\ufe0f"],
    ["tag character", "\u{e0041}"],
    ["word joiner", "\u2060"],
  ].map(([name, text]): Row => [`sub with ${name}`, goodClaims({ sub: `ad${text}min` }), INVALID]),
  ["sub with a lone surrogate", withRaw("sub", '"ad\\ud800min"'), INVALID],
  ["sub with a low surrogate first", withRaw("sub", '"\\udc00\\ud800"'), INVALID],
];

const PERMISSIONS: readonly Row[] = [
  ...wrongTypes("permissions", [
    null,
    "a\tb",
    "a,é",
    "a\u00a0b",
    1,
    true,
    {},
    { 0: "a", length: 1 },
    [1],
    [null],
    [true],
    [["a"]],
    [{ name: "a" }],
  ]).slice(1),
  ...["", " ", "a b", "a\tb", "a\n", "é", "a\u200bb", "\u0000", "p".repeat(129)].map(
    (name): Row => [
      `permission ${JSON.stringify(name.slice(0, 9))}`,
      goodClaims({ permissions: ["ok", name] }),
      INVALID,
    ],
  ),
  ["257 permissions", goodClaims({ permissions: Array(257).fill("p") }), INVALID],
  ["permissions null beside a scope", goodClaims({ permissions: null, scope: "a" }), INVALID],
  ["scope null beside a scp", goodClaims({ permissions: undefined, scope: null, scp: "a" }), INVALID],
  ...["scope", "scp"].flatMap((claim) =>
    [
      ...[null, 1, true, {}, [["a"]], ["a b"], ["a", 1], [""], "a\tb", "a\nb", "é", "a\u00a0b", "p".repeat(129)],
      ...[Array(257).fill("p").join(" "), Array(257).fill("p")],
    ].map(
      (value): Row => [
        `${claim} ${JSON.stringify(value).slice(0, 12)}`,
        goodClaims({ permissions: undefined, [claim]: value }),
        INVALID,
      ],
    ),
  ),
];

/** `depth` actors inside one another. */
function chain(depth: number): unknown {
  return depth === 0 ? undefined : { sub: `a${depth}`, act: chain(depth - 1) };
}

const OTHERS: readonly Row[] = [
  ...[
    null,
    "b",
    1,
    [],
    [{ sub: "b" }],
    {},
    { sub: 1 },
    { sub: "" },
    { sub: "a\nb" },
    { sub: "anonymous" },
    { sub: "b", act: null },
    { sub: "b", act: "c" },
    { sub: "b", iss: null },
    { sub: "b", iss: "" },
    { sub: "b", iss: ["https://idp.test"] },
    { sub: "b", act: { sub: "c", iss: 5 } },
  ].map((act): Row => [`act ${JSON.stringify(act)}`, goodClaims({ act }), INVALID]),
  ["an act chain of 11", goodClaims({ act: chain(11) }), INVALID],
  ["an act chain of 150", goodClaims({ act: chain(150) }), INVALID],
  ["cnf", goodClaims({ cnf: { jkt: "x" } }), INVALID],
  ["cnf null", goodClaims({ cnf: null }), INVALID],
  ["cnf empty", goodClaims({ cnf: {} }), INVALID],
  [
    "claims on a prototype",
    JSON.stringify({ x: 1 }).replace('"x":1', `"__proto__":${JSON.stringify(goodClaims())}`),
    NOT_MEANT,
  ],
  [
    "a permissions claim on a prototype",
    withRaw("permissions", "0").replace('"permissions":0', '"permissions":{"__proto__":["admin"]}'),
    INVALID,
  ],
];

const TEXTS: readonly Row[] = [
  ["no payload", "", MALFORMED],
  ["payload null", "null", MALFORMED],
  ["payload array", JSON.stringify([goodClaims()]), MALFORMED],
  ["payload string", JSON.stringify(JSON.stringify(goodClaims())), MALFORMED],
  ["payload number", "7", MALFORMED],
  ["payload not JSON", "sub=admin", MALFORMED],
  ["payload cut off", JSON.stringify(goodClaims()).slice(0, -1), MALFORMED],
  ["payload with text behind", `${JSON.stringify(goodClaims())}x`, MALFORMED],
  ["payload with a byte order mark", `\ufeff${JSON.stringify(goodClaims())}`, MALFORMED],
  ["payload with a comment", `/**/${JSON.stringify(goodClaims())}`, MALFORMED],
  ["a nested token", forgeToken(key, header, goodClaims()), MALFORMED],
  ["sub twice", withRaw("sub", '"a","sub":"admin"'), MALFORMED],
  ["sub twice, once escaped", withRaw("sub", '"a","\\u0073ub":"admin"'), MALFORMED],
  ["permissions twice", withRaw("permissions", '[],"permissions":["admin"]'), MALFORMED],
  ["exp twice", withRaw("exp", `${NOW_SECONDS + 600},"exp":${NOW_SECONDS + 600}`), MALFORMED],
  ["duplicates inside act", withRaw("act", '{"sub":"a","sub":"b"}'), MALFORMED],
  ["__proto__ twice", withRaw("x", '1,"__proto__":1,"__proto__":2'), MALFORMED],
  ["2,500 open arrays", withRaw("x", `${"[".repeat(2500)}${"]".repeat(2500)},"iss":1`), MALFORMED],
];

describe.each([
  ["times", TIMES],
  ["audiences", AUDIENCES],
  ["issuers", ISSUERS],
  ["subjects", SUBJECTS],
  ["permissions", PERMISSIONS],
  ["other claims", OTHERS],
  ["payloads", TEXTS],
] as const)("hostile %s", (_name, rows) => {
  test.each(rows.map((row) => [...row] as const))("%s", async (_title, payload, message) => {
    const outcome = await context.verifyToken(forgeToken(key, header, payload), "agents").then(
      (verified) => verified,
      (error: unknown) => error,
    );
    expect(outcome).toBeInstanceOf(Refusal);
    expect(outcome).toMatchObject({ code: "UNAUTHENTICATED", message, details: undefined });
    expect(outcome).toHaveProperty("cause.message", expect.any(String));
  });
});

test("the unchanged token of these rows is valid", async () => {
  const { caller } = await context.verifyToken(forgeToken(key, header, goodClaims()), "agents");
  expect(caller.permissions).toEqual(["customer:read"]);
});
