import { afterAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { parse, stringify } from "yaml";
import { importOperations } from "../../../src/cli/import/openapi.ts";
import { zodFromJson } from "../../../src/core/json-schema/zod.ts";
import { documentFindings } from "../../../src/targets/http/openapi/faults.ts";
import { anySchema } from "../../core/json-schema/generated.ts";
import type { Loose } from "../../support/asking-service.ts";
import { runStc } from "../../support/stc.ts";
import { answers, apiOf, documentOf, loaded } from "../../targets/http/openapi/support.ts";
import { handlerOf, httpSystem, runContext } from "../../targets/http/support.ts";

const folder = mkdtempSync(join(tmpdir(), "stc import "));
afterAll(() => rmSync(folder, { recursive: true }));

const PET = {
  type: "object",
  required: ["id", "name"],
  properties: {
    id: { type: "integer", format: "int64" },
    name: { type: "string" },
    owner: { type: "object", properties: { email: { type: "string" }, password: { type: "string" } } },
    labels: { type: "object", additionalProperties: { type: "string" } },
  },
};

const PETS = {
  openapi: "3.0.3",
  info: { title: "Pets", version: "1" },
  servers: [{ url: "/v1" }],
  components: { schemas: { Pet: PET } },
  paths: {
    "/pets": {
      get: {
        ...{ operationId: "listPets", tags: ["pets"], summary: "List all pets" },
        parameters: [{ name: "limit", in: "query", schema: { type: "integer", maximum: 100 } }],
        responses: answers({ type: "array", items: { $ref: "#/components/schemas/Pet" } }),
      },
      post: {
        operationId: "createPet",
        requestBody: {
          required: true,
          content: {
            "application/json": {
              schema: { type: "object", required: ["name"], properties: { name: { type: "string" } } },
            },
          },
        },
        responses: answers({ $ref: "#/components/schemas/Pet" }, "201"),
      },
    },
    "/pets/{petId}": {
      parameters: [{ name: "petId", in: "path", required: true, schema: { type: "string" } }],
      get: { operationId: "getPet", tags: ["pets", "one"], responses: answers({ $ref: "#/components/schemas/Pet" }) },
      delete: { operationId: "deletePet", responses: { 204: {} } },
    },
    "/pets/{petId}/photo": {
      get: {
        operationId: "getPhoto",
        parameters: [{ name: "petId", in: "path", required: true, schema: { type: "string" } }],
        responses: { 200: { content: { "image/png": {} } } },
      },
    },
  },
};

/** Writes a configuration whose system has this document, and returns the words that name it. */
function configured(name: string, document: unknown, headers: Loose = {}): readonly string[] {
  const own = join(folder, name);
  mkdirSync(join(own, "tools"), { recursive: true });
  writeFileSync(join(own, "api.json"), JSON.stringify(document));
  const config = {
    tools: ["tools"],
    audit: { dir: "audit" },
    jwt: {
      issuers: [{ issuer: "https://issuer.test", audience: "stc", publicKeyFile: "key.pem", algorithms: ["EdDSA"] }],
    },
    systems: { pets: { http: { baseUrl: "https://pets.test/v1", openapi: "api.json", headers } } },
  };
  writeFileSync(join(own, "stc.yaml"), stringify(config));
  const { publicKey } = generateKeyPairSync("ed25519");
  writeFileSync(join(own, "key.pem"), publicKey.export({ type: "spki", format: "pem" }));
  return ["--config", join(own, "stc.yaml")];
}

const OUT = join(folder, "one", "tools");
const WORDS = configured("one", PETS);

describe("stc import openapi", () => {
  test("lists the operations, with the reason for each that cannot be imported", async () => {
    const { code, out } = await runStc(["import", "openapi", "pets", "--list", ...WORDS]);
    expect(code).toBe(0);
    expect(out.split("\n").map((line) => line.split(/ {2,}/))).toEqual([
      ["OPERATION", "METHOD", "PATH", "TAGS", "NOTE"],
      ["listPets", "GET", "/pets", "pets"],
      ["createPet", "POST", "/pets", "-"],
      ["getPet", "GET", "/pets/{petId}", "pets one"],
      ["deletePet", "DELETE", "/pets/{petId}", "-"],
      [
        "getPhoto",
        "GET",
        "/pets/{petId}/photo",
        "-",
        "cannot be imported: its answer is image/png, which is neither JSON nor text",
      ],
      [""],
    ]);
    const tagged = await runStc(["import", "openapi", "pets", "--list", "--tag", "one", "--json", ...WORDS]);
    expect(JSON.parse(tagged.out).operations.map(({ tool }: Loose) => tool)).toEqual(["pets_get_pet"]);
  });

  test("writes a manifest for each operation that is named, and never over another file", async () => {
    const words = ["import", "openapi", "pets", "getPet", "POST /pets", "--out", OUT, ...WORDS];
    const first = await runStc(words);
    expect(first).toMatchObject({ code: 0, err: "" });
    expect(readdirSync(OUT).sort()).toEqual(["pets_create_pet.tool.yaml", "pets_get_pet.tool.yaml"]);
    const path = join(OUT, "pets_get_pet.tool.yaml");
    expect(readFileSync(path, "utf8")).toMatchInlineSnapshot(`
      "# yaml-language-server: $schema=tool.schema.json
      # Written by stc import openapi. Judge the classification and the permission, then write the output policy.

      name: pets_get_pet
      description: "GET /pets/{petId}"
      classification: read
      permissions: { required: ["pets:read"] }

      target: { system: pets, http: { method: GET, path: "/pets/{petId}" } }

      input:
        type: object
        properties: { petId: { type: string, maxLength: 256 } }
        required: [petId]

      output:
        type: object
        properties:
          id: { type: [integer, "null"] }
          name: { type: [string, "null"] }
          owner:
            type: [object, "null"]
            properties:
              email: { type: [string, "null"] }
              password: { type: [string, "null"] }
          labels:
            type: [object, "null"]
            additionalProperties: { type: [string, "null"] }

      # Fields without a line here are left out of every answer. Remove the # of what agents may see; mask hides most of a value.
      outputPolicy:
        # id: allow
        # name: allow
        # owner.email: mask # personal data, by its name
        # owner.password: redact # a secret, by its name
        # labels: allow # holds names and values that the schema does not list

      # Hides personal data that has a shape, such as e-mail addresses, in what is allowed.
      scan: { "*": balanced }

      # What the target says about a failure, without secrets; a text with personal data is withheld.
      # errors: filtered
      "
    `);
    writeFileSync(path, "mine");
    symlinkSync(join(folder, "elsewhere"), join(OUT, "pets_list_pets.tool.yaml"));
    const again = await runStc(["import", "openapi", "pets", "getPet", "listPets", "--out", OUT, ...WORDS]);
    expect(again.code).toBe(1);
    expect(again.err).toContain(`getPet: ${path} exists and is left as it is`);
    expect(readFileSync(path, "utf8")).toBe("mine");
    expect(existsSync(join(folder, "elsewhere"))).toBe(false);
  });

  test.each<readonly [readonly string[], number, string]>([
    [["pets"], 64, "name operations, or give --tag, --method or --all; --list lists them"],
    [["pets", "getPets", "--out", OUT], 64, "the document has no operation getPets; did you mean getPet?"],
    [["pets", "getPet"], 64, "--out is missing"],
    [["pet", "getPet", "--out", OUT], 64, "systems has no HTTP system pet; did you mean pets?"],
    [["pets", "getPhoto", "--out", OUT], 1, "getPhoto: its answer is image/png, which is neither JSON nor text"],
  ])("with %j ends with code %d", async (words, code, message) => {
    const ended = await runStc(["import", "openapi", ...words, ...WORDS]);
    expect(ended.code).toBe(code);
    expect(ended.err).toContain(message);
  });

  test("writes what stc check then knows: what releases nothing, the document, and what does not fit it", async () => {
    const words = configured("checked", PETS);
    const out = join(folder, "checked", "tools");
    await runStc(["import", "openapi", "pets", "--all", "--out", out, ...words]);
    const checked = await runStc(["check", ...words]);
    expect(checked).toMatchObject({ code: 0, err: "" });
    expect(checked.out).toStartWith("ok: 4 tools\n");
    expect(checked.out).toMatch(/^contract pets sha256:[0-9a-f]{64} \(pinned\)$/m);
    expect(checked.out).toContain("pets_get_pet.tool.yaml: tool pets_get_pet: outputPolicy: releases nothing");
    const path = join(out, "pets_get_pet.tool.yaml");
    writeFileSync(path, readFileSync(path, "utf8").replace('/pets/{petId}" } }', '/pet/{petId}" } }'));
    const refused = await runStc(["check", ...words]);
    expect(refused.code).toBe(78);
    expect(refused.err).toContain(
      "pets_get_pet.tool.yaml: line 9: tool pets_get_pet: target.http.path: is not a path of the document, which has 3; did you mean /pets/{petId}?",
    );
  });

  test("names a document that cannot be read", async () => {
    const words = configured("old", { swagger: "2.0" });
    const { code, err } = await runStc(["import", "openapi", "pets", "--list", ...words]);
    expect(code).toBe(78);
    expect(err).toContain("systems.pets.http.openapi: api.json is a Swagger 2.0 document");
  });
});

/** The manifests of a document, by the names of their tools. */
function manifests(document: ReturnType<typeof documentOf>): ReadonlyMap<string, string> {
  const made = [...importOperations("pets", document)];
  return new Map(made.flatMap(({ tool, made: each }) => ("text" in each ? [[tool, each.text] as const] : [])));
}

describe("a manifest that is imported", () => {
  const texts = manifests(documentOf({ "api.json": PETS }));

  test("loads, fits its document, and releases nothing until its policy says so", () => {
    expect([...texts.keys()]).toEqual(["pets_list_pets", "pets_create_pet", "pets_get_pet", "pets_delete_pet"]);
    for (const text of texts.values()) {
      const tool = loaded(text);
      expect(tool.outputPolicy).toEqual({});
      expect(documentFindings(documentOf({ "api.json": PETS }), tool, tool.target.http)).toMatchObject({
        faults: [],
        notes: [],
      });
    }
  });

  test("accepts answers that lack what the document requires, have null, or other texts and numbers", () => {
    const thing = {
      type: "object",
      additionalProperties: false,
      required: ["id", "state"],
      properties: {
        id: { type: "string", format: "uuid", maxLength: 3 },
        state: { type: "string", enum: ["on", "off"] },
        due: { type: "string", format: "date" },
        parts: { type: "array", minItems: 2, items: { oneOf: [{ type: "integer", minimum: 5 }, { type: "string" }] } },
      },
    };
    const document = documentOf({
      "api.json": {
        openapi: "3.0.3",
        info: {},
        paths: { "/x": { get: { operationId: "x", responses: answers(thing) } } },
      },
    });
    const { output } = loaded(manifests(document).get("pets_x") ?? "");
    const answer = { id: "not a UUID", due: "2026-01-01T10:00:00Z", parts: [1, "a", null] };
    expect(output.parse({ ...answer, more: 1 })).toEqual(answer);
    expect(output.parse({ state: null })).toEqual({ state: null });
    // Policies go by choices, and by types.
    expect(output.safeParse({ state: "other" }).success).toBe(false);
    expect(output.safeParse({ id: { first: "Ann" } }).success).toBe(false);
  });

  test("has each suggestion as a line that works when its comment sign is removed", () => {
    const tool = loaded((texts.get("pets_list_pets") ?? "").replaceAll(/^ {2}# /gm, "  "));
    expect(tool.outputPolicy).toEqual({
      "[].labels": "allow",
      "[].id": "allow",
      "[].name": "allow",
      "[].owner.email": "mask",
      "[].owner.password": "redact",
    });
  });

  test("sends the request that the document describes", async () => {
    const seen: string[] = [];
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      async fetch(request) {
        seen.push(
          `${request.method} ${new URL(request.url).pathname}${new URL(request.url).search} ${await request.text()}`,
        );
        return Response.json({ id: 1, name: "x" }, { status: request.method === "POST" ? 201 : 200 });
      },
    });
    const handler = handlerOf(httpSystem(server.port ?? 0), {
      systems: new Map([["pets", httpSystem(server.port ?? 0)]]),
    });
    try {
      const calls = [
        ["pets_create_pet", { name: "Rex" }],
        ["pets_get_pet", { petId: "a b" }],
      ] as const;
      for (const [name, args] of calls) {
        const tool = loaded(texts.get(name) ?? "");
        const binding = handler.bind(tool);
        const plan = await binding.plan(tool.input.parse(args), { signal: AbortSignal.timeout(10_000) });
        expect(await binding.run(plan, runContext())).toEqual({ id: 1, name: "x" });
      }
      expect(seen).toEqual(['POST /v1/pets {"name":"Rex"}', "GET /v1/pets/a%20b "]);
    } finally {
      await handler.close();
      await server.stop(true);
    }
  });
});

/** Texts that try to be more than a text. */
const ESCAPES = [
  'x"\nhandler: !!js/function "globalThis.hacked = 1"\n#',
  "x: {a: 1}\n- b",
  "*alias",
  "&anchor x",
  "!!binary x",
  "<<",
  "constructor",
  "# comment",
  "x #comment\noutputPolicy:\n  '*': allow",
  "\u2028outputPolicy: {'*': allow}",
  "\u0085outputPolicy: 1",
  `$${"{globalThis.hacked = 1}"}`,
  "`rm -rf /`",
  "---\nname: other",
  "...\n%YAML 1.1",
  "\u202eevil\u0000\u001b[2J",
  "../../../../etc/cron.d/x",
  "C:\\x",
  "yes",
  "0x1f",
  "~",
  "\ud800",
  "\ufffd",
  "{*}",
  "{x}}{",
  "a".repeat(5_000),
];

/** Returns a document in which a text is wherever a document can hold one. */
function hostile(text: string) {
  const schema = {
    type: "object",
    required: [text],
    description: text,
    properties: {
      [text]: { type: "string", enum: [text], pattern: text, description: text, default: text, format: text },
      plain: { type: text, title: text },
    },
  };
  return apiOf({
    "/x": {
      post: {
        ...{ operationId: text, tags: [text], summary: text, description: text },
        parameters: [
          { name: text, in: "query", description: text, schema: { type: "string", enum: [text], default: text } },
          { name: text, in: "header", schema: { type: "string" } },
        ],
        requestBody: { required: true, content: { "application/json": { schema }, [text]: { schema } } },
        responses: { ...answers(schema), [text]: { description: text } },
      },
    },
    [`/${text}`]: { get: { operationId: `${text}!`, responses: answers(schema) } },
  });
}

const FIELDS = [
  "name",
  "description",
  "classification",
  "permissions",
  "target",
  "input",
  "output",
  "outputPolicy",
  "scan",
];

function checkHarmless(text: string): void {
  for (const { tool, made } of importOperations("pets", hostile(text))) {
    expect(tool).toMatch(/^pets[a-z0-9_]{0,60}$/);
    if ("problem" in made) continue;
    expect(made.text).not.toMatch(/[^\n\P{C}]|[\u2028\u2029]/u);
    const manifest: Loose = parse(made.text, { version: "1.2", uniqueKeys: true, maxAliasCount: 0 });
    expect(FIELDS.filter((field) => field !== "scan" || field in manifest)).toEqual(Object.keys(manifest));
    expect(manifest["outputPolicy"] ?? {}).toEqual({});
    expect(manifest["target"].system).toBe("pets");
    const [head, ...lines] = made.text.split("\n");
    expect(head).toBe("# yaml-language-server: $schema=tool.schema.json");
    const comments = lines.filter((line) => line.trimStart().startsWith("#"));
    for (const comment of comments) expect(comment).toMatch(/^ *#[ A-Za-z0-9.,:;'#()[\]"_-]*$/);
    const loadedTool = loaded(made.text);
    expect(loadedTool.outputPolicy).toEqual({});
  }
  expect(Object.hasOwn(globalThis, "hacked")).toBe(false);
  expect(Object.hasOwn(Object.prototype, "enum")).toBe(false);
}

describe("texts of a document", () => {
  test.each(ESCAPES)("%j stays a text, wherever it is", (text) => checkHarmless(text));

  test("__proto__ as a key is refused with the document", () => {
    expect(() => hostile("__proto__")).toThrow("__proto__");
  });

  test("made of any characters stay texts", () => {
    const piece = fc.constantFrom(
      "\n",
      ":",
      "#",
      "-",
      '"',
      "'",
      "{",
      "}",
      "[",
      "]",
      "&",
      "*",
      "!",
      "%",
      "@",
      "`",
      "\\",
      "|",
      ">",
      " ",
      "\t",
      "\u0085",
      "\u202e",
      "a",
      "\u{e0041}",
      "é",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => checkHarmless(pieces.join(""))),
      { numRuns: 150, seed: 19 },
    );
  });

  test("are not listed in the policy when their names are not plain", () => {
    const document = apiOf({
      "/x": {
        get: {
          operationId: "x",
          responses: answers({ type: "object", properties: { "a b: c": { type: "string" }, ok: { type: "string" } } }),
        },
      },
    });
    const text = manifests(document).get("pets_x") ?? "";
    expect(text).toContain("# Not listed here: 1 more");
    expect(text.slice(text.indexOf("# Fields"))).not.toContain("a b");
    expect(zodFromJson("output", loaded(text).output.toJSONSchema()).faults).toEqual([]);
  });
});

test("an operation with any schema becomes a manifest that loads and fits its document", () => {
  const problems: string[] = [];
  fc.assert(
    fc.property(anySchema, anySchema, (body, answer) => {
      const post = {
        ...{ operationId: "x", requestBody: { content: { "application/json": { schema: body } } } },
        parameters: [{ name: "q", in: "query", schema: body }],
        responses: answers(answer),
      };
      for (const { made } of importOperations("pets", apiOf({ "/x": { post } }, {}, "3.1.0"))) {
        if ("problem" in made) problems.push(made.problem);
        else loaded(made.text);
      }
    }),
    { numRuns: 200, seed: 7 },
  );
  expect(problems).toEqual([]);
});

test("a header that the system sets does not become an argument, and the manifest passes stc check", async () => {
  const header = { name: "X-Version", in: "header", required: true, schema: { type: "string" } };
  const paths = {
    "/x": { get: { operationId: "getX", parameters: [header], responses: answers({ type: "object" }) } },
  };
  const words = configured("headers", { openapi: "3.0.3", info: {}, paths }, { "x-version": "2022-06-28" });
  const out = join(folder, "headers", "tools");
  expect(await runStc(["import", "openapi", "pets", "getX", "--out", out, ...words])).toMatchObject({
    code: 0,
    err: "",
  });
  expect(readFileSync(join(out, "pets_get_x.tool.yaml"), "utf8")).toContain(
    "# Headers that the system sets: x-version.",
  );
  expect(await runStc(["check", ...words])).toMatchObject({ code: 0, err: "" });
});

describe("the author's judgement", () => {
  const texts = (type: string, more: Loose = {}) => ({ type: "string", ...more, description: type });
  const ACCOUNTS = {
    ...{ openapi: "3.0.3", info: {} },
    paths: {
      "/accounts/{sid}/messages": {
        post: {
          ...{ operationId: "send_message_accounts__sid__messages_post", summary: "Find or send" },
          parameters: [
            { name: "sid", in: "path", required: true, schema: { type: "string" } },
            { name: "region", in: "query", schema: { type: "string" } },
          ],
          requestBody: {
            required: true,
            content: {
              "application/json": {
                schema: {
                  type: "object",
                  required: ["to", "tries"],
                  properties: {
                    to: texts("to", { format: "email", minLength: 3 }),
                    tries: { type: "integer", maximum: 3 },
                    more: { type: "object", properties: { a: { type: "string", pattern: "^x$" } } },
                  },
                },
              },
            },
          },
          responses: answers({ type: "object" }),
        },
        delete: {
          operationId: "clear",
          parameters: [{ name: "sid", in: "path", required: true, schema: { type: "string" } }],
        },
      },
    },
  };
  const words = configured("judged", ACCOUNTS);
  const imported = async (name: string, ...options: readonly string[]) => {
    const out = join(folder, "judged", name);
    const ended = await runStc(["import", "openapi", "pets", ...options, "--out", out, ...words]);
    const manifest = (tool: string): Loose => parse(readFileSync(join(out, `${tool}.tool.yaml`), "utf8"));
    return { ...ended, manifest, text: (tool: string) => readFileSync(join(out, `${tool}.tool.yaml`), "utf8") };
  };
  const ID = "send_message_accounts__sid__messages_post";

  test("names a tool by the function of FastAPI's ids, or as the author does", async () => {
    const { manifest, code } = await imported("names", ID);
    expect([code, manifest("pets_send_message").name]).toEqual([0, "pets_send_message"]);
    const own = await imported("renamed", ID, "--rename", `${ID}=send`, "--read", ID);
    expect(own.code).toBe(0);
    expect(own.manifest("send")).toMatchObject({
      name: "send",
      classification: "read",
      permissions: { required: ["pets:read"] },
    });
    for (const [pair, message] of [
      ["nothing=send", "the document has no operation nothing, given with --rename"],
      [`${ID}=Send!`, "a tool's name is lower-case letters, digits and _"],
      [`${ID}=pets_clear`, "another tool is called pets_clear"],
      ["send", "--rename send: write name=value"],
    ] as const) {
      const refused = await imported("none", ID, "--rename", pair);
      expect([refused.code, refused.err]).toEqual([64, expect.stringContaining(message)]);
    }
  });

  test("refuses --read for an operation that changes, and for one that the document lacks", async () => {
    const deleted = await imported("deleted", "clear", "--read", "clear");
    expect([deleted.code, deleted.err]).toEqual([1, expect.stringContaining("clear: a DELETE request is not a read")]);
    const unknown = await imported("unknown", "clear", "--read", "clean");
    expect([unknown.code, unknown.err]).toEqual([64, expect.stringContaining("no operation clean, given with --read")]);
  });

  test("sends fixed values instead of arguments", async () => {
    const { manifest, text, code } = await imported(
      "fixed",
      ID,
      "--fix",
      "sid=AC12",
      "--fix",
      "tries=2",
      "--fix",
      "region=eu",
    );
    expect(code).toBe(0);
    const { target, input } = manifest("pets_send_message");
    expect(target.http).toEqual({
      ...{ method: "POST", path: "/accounts/AC12/messages", query: { region: "eu" } },
      body: { to: "{to}", tries: 2, more: "{more}" },
    });
    expect([Object.keys(input.properties), input.required]).toEqual([["to", "more"], ["to"]]);
    expect(loaded(text("pets_send_message")).input.safeParse({ to: "a@b.test", sid: "AC99" }).success).toBe(false);
    for (const value of ["../x", "a/b", "{to}", "."]) {
      const refused = await imported("refused", ID, "--fix", `sid=${value}`);
      expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("the value of --fix sid")]);
    }
  });

  test("refuses a fixed value for an argument that no operation has, and two for one argument", async () => {
    for (const [pairs, problem] of [
      [["sdi=AC12"], "no operation has the argument sdi, given with --fix"],
      [["sid=AC12", "sid=AC13"], "--fix sid: given twice"],
    ] as const) {
      const refused = await imported("refused", ID, ...pairs.flatMap((pair) => ["--fix", pair]));
      expect([refused.code, refused.err]).toEqual([64, expect.stringContaining(problem)]);
    }
  });

  test("opens the form of arguments, but not which there are", async () => {
    const { text, code } = await imported("open", ID, "--open-input");
    expect(code).toBe(0);
    const { input } = loaded(text("pets_send_message"));
    const args = { sid: "A", to: "x", tries: 9 };
    expect(input.parse({ ...args, more: { a: "y", b: 1 } })).toEqual({ ...args, more: { a: "y", b: 1 } });
    for (const refused of [
      { ...args, other: 1 },
      { sid: "A", to: "x" },
      { ...args, to: 1 },
    ])
      expect(input.safeParse(refused).success).toBe(false);
  });
});

test("two operations whose names become the same get files of their own", () => {
  const operation = (id: string) => ({ get: { operationId: id, responses: answers({ type: "object" }) } });
  const document = apiOf({
    "/a": operation("getPet"),
    "/b": operation("get-pet"),
    "/c": operation("get.pet"),
    "/d": { get: {} },
  });
  const names = [...importOperations("pets", document)].map(({ tool }) => tool);
  expect(new Set(names).size).toBe(4);
  expect(names[0]).toBe("pets_get_pet");
  expect(names[3]).toBe("pets_get_d");
});
