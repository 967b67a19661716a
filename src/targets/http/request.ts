import { Refusal } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { namesCharacter } from "../../core/pattern/parse.ts";
import type { HttpTarget, Json } from "../../core/types.ts";
import { staysInPlace } from "./path-segments.ts";

/** Text of a manifest, in parts: literal text, and arguments by name. */
type Template = readonly (string | { readonly name: string })[];

/** Name of all arguments that no other part of the request uses. */
export const OTHER_ARGUMENTS = "*";

/** Returns the parts of a text; undefined when its braces do not enclose names. */
export function templateOf(text: string): Template | undefined {
  const parts = text.split(/(\{[^{}]{1,128}\})/).filter((part) => part !== "");
  const isSound = parts.every((part, index) => /^\{[^{}]+\}$/.test(part) || !/[{}]/.test(parts[index] ?? ""));
  return isSound ? parts.map((part) => (part.startsWith("{") ? { name: part.slice(1, -1) } : part)) : undefined;
}

/** Returns the names of the arguments in all texts of a value. */
export function namesIn(value: unknown): readonly string[] {
  if (typeof value === "string") {
    return (templateOf(value) ?? []).flatMap((part) => (typeof part === "string" ? [] : [part.name]));
  }
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).flatMap(namesIn);
}

/** Returns the name of the argument that a text consists of; undefined for any other text. */
export function soleArgument(text: string): string | undefined {
  return /^\{([^{}]{1,128})\}$/.exec(text)?.[1];
}

/** Returns the names of the arguments that a request uses by name. */
export function usedArguments({ path, query, headers, body }: HttpTarget["http"]): ReadonlySet<string> {
  return new Set(namesIn([path, query, headers, body]));
}

export const JSON_TYPE = "application/json";
export const JSON_TYPES = /^application\/(?:json|[a-z0-9.-]+\+json)$/;
export const FORM_TYPE = "application/x-www-form-urlencoded";
export const TEXT_TYPE = "text/plain";

export type BodyForm = "json" | "form" | "text";

/** Returns how a body of this media type is written; undefined when it cannot be. */
export function bodyFormOf(contentType: string): BodyForm | undefined {
  if (JSON_TYPES.test(contentType)) return "json";
  if (contentType === FORM_TYPE) return "form";
  return contentType === TEXT_TYPE ? "text" : undefined;
}

const URL_CHARACTERS_MAX = 8_192;
const HEADER_CHARACTERS_MAX = 4_096;
/** Visible ASCII, with spaces inside. */
export const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const DEPTH_MAX = 60;

/** Characters that a path parameter may have only where a pattern of its schema names them. They are sent encoded. */
export const GUARDED = ["/", "\\", "%", ";", "?", "#"] as const;

export interface BuiltRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined for a request without a body. */
  readonly body: Json | undefined;
}

type Arguments = Readonly<Record<string, unknown>>;

export interface RequestOptions {
  /** Origin and path prefix, without a slash at the end. */
  readonly baseUrl: URL;
  readonly http: HttpTarget["http"];
  /** Returns the patterns that the schema of an argument declares. */
  readonly patternsOf: (name: string) => readonly RegExp[];
}

/** Builds the requests of one tool from parsed arguments. Every value is data: it cannot change what surrounds it. */
export class RequestBuilder {
  readonly #options: RequestOptions;
  readonly #prefix: string;
  readonly #path: Template;
  readonly #query: readonly (readonly [name: string, value: Template])[];
  readonly #headers: readonly (readonly [name: string, value: Template])[];
  readonly #used: ReadonlySet<string>;

  constructor(options: RequestOptions) {
    const { http, baseUrl } = options;
    this.#options = options;
    this.#prefix = baseUrl.pathname.replace(/\/$/, "");
    this.#path = template(http.path);
    this.#query = templates(http.query);
    this.#headers = templates(http.headers);
    this.#used = usedArguments(http);
  }

  /** @throws {Refusal} INVALID_INPUT that names the argument */
  build(input: unknown): BuiltRequest {
    const args: Arguments = isTable(input) ? input : {};
    const { body } = this.#options.http;
    return {
      url: this.#url(args),
      headers: this.#headersOf(args),
      body: body === undefined ? undefined : this.#filled(body, args),
    };
  }

  #url(args: Arguments): string {
    const path = `${this.#prefix}${this.#pathOf(args)}`;
    const query = this.#query.flatMap(([name, value]) =>
      parameterValues(value, args).map((each) => `${encoded(name)}=${encoded(each)}`),
    );
    const { origin } = this.#options.baseUrl;
    const target = query.length === 0 ? path : `${path}?${query.join("&")}`;
    const url = URL.parse(`${origin}${target}`);
    const isSame =
      url !== null && url.origin === origin && `${url.pathname}${url.search}` === target && url.hash === "";
    // The last check: a parser reads the same URL, with as many segments as the template has, and no parts make dots together.
    if (!isSame || !path.split("/").every(isLiteralOrStays) || countSlashes(path) !== this.#slashes()) {
      throw invalid("(path)", "do not make a valid path");
    }
    if (target.length > URL_CHARACTERS_MAX)
      throw invalid("(path)", `make a URL of more than ${URL_CHARACTERS_MAX} characters`);
    return url.href;
  }

  #slashes(): number {
    return countSlashes(this.#prefix) + countSlashes(this.#options.http.path);
  }

  #pathOf(args: Arguments): string {
    return this.#path
      .map((part) => (typeof part === "string" ? part : encoded(this.#pathValue(part.name, args[part.name]))))
      .join("");
  }

  #pathValue(name: string, value: unknown): string {
    const text = parameterText(name, value);
    if (text === "") throw invalid(name, "must not be empty in a path");
    if (hasControl(text)) throw invalid(name, "must not contain control characters");
    const guarded = GUARDED.filter((character) => text.includes(character));
    const patterns = guarded.length === 0 ? [] : this.#options.patternsOf(name);
    const refused = guarded.find((character) => !patterns.some((pattern) => namesCharacter(pattern, character)));
    if (refused !== undefined) throw invalid(name, `must not contain ${refused} in a path`);
    if (!staysInPlace(text)) {
      throw invalid(
        name,
        "must not be . or .. in a path, nor contain such a segment or an empty one, also when decoded",
      );
    }
    return text;
  }

  #headersOf(args: Arguments): Readonly<Record<string, string>> {
    const headers: Record<string, string> = {};
    for (const [name, value] of this.#headers) {
      const [text, another] = parameterValues(value, args);
      if (another !== undefined) throw invalid(nameOf(value), "must not be a list in a header");
      if (text === undefined) continue;
      if (!HEADER_VALUE.test(text) || text.length > HEADER_CHARACTERS_MAX) {
        throw invalid(nameOf(value), "must be visible ASCII in a header, without line breaks");
      }
      headers[name] = text;
    }
    return headers;
  }

  /** Returns the body with its arguments; undefined for a missing argument: its member, or the whole body, is left out. */
  #filled(declared: Json, args: Arguments): Json | undefined {
    if (typeof declared === "string") return this.#text(template(declared), args);
    if (Array.isArray(declared)) {
      return declared.flatMap((item: Json) => {
        const filled = this.#filled(item, args);
        return filled === undefined ? [] : [filled];
      });
    }
    if (typeof declared !== "object" || declared === null) return declared;
    const members = Object.entries(declared).flatMap(([key, inner]) => {
      const filled = this.#filled(inner, args);
      return filled === undefined ? [] : [[key, filled] as const];
    });
    return Object.fromEntries(members);
  }

  #text(parts: Template, args: Arguments): Json | undefined {
    const [first, second] = parts;
    if (first !== undefined && typeof first !== "string" && second === undefined) {
      if (first.name !== OTHER_ARGUMENTS) return jsonOf(first.name, args[first.name], 0);
      const others = Object.keys(args).filter((name) => !this.#used.has(name));
      return Object.fromEntries(
        others.flatMap((name) => {
          const value = jsonOf(name, args[name], 0);
          return value === undefined ? [] : [[name, value] as const];
        }),
      );
    }
    return parts.map((part) => (typeof part === "string" ? part : parameterText(part.name, args[part.name]))).join("");
  }
}

/** Returns the bytes of a body. @throws {Refusal} INVALID_INPUT for a value that its form cannot hold */
export function bodyText(body: Json, form: BodyForm): string {
  if (form === "json") return JSON.stringify(body);
  if (form === "text") return parameterText("(body)", body);
  return Object.entries(isTable(body) ? body : {})
    .flatMap(([name, value]) =>
      listOf(value ?? []).map((each) => `${encoded(name)}=${encoded(parameterText(name, each))}`),
    )
    .join("&");
}

function template(text: string): Template {
  const parts = templateOf(text);
  if (parts === undefined) throw new Error("the text is not a template");
  return parts;
}

function templates(texts: Readonly<Record<string, string>> = {}): readonly (readonly [string, Template])[] {
  return Object.entries(texts).map(([name, text]) => [name, template(text)] as const);
}

function nameOf(parts: Template): string {
  const [first = "(header)"] = parts.flatMap((part) => (typeof part === "string" ? [] : [part.name]));
  return first;
}

/** Returns the values of a parameter: none when it is a missing argument, several when it is a list. */
function parameterValues(parts: Template, args: Arguments): readonly string[] {
  const [first, second] = parts;
  if (first !== undefined && typeof first !== "string" && second === undefined) {
    const value = args[first.name];
    return value === undefined || value === null ? [] : listOf(value).map((each) => parameterText(first.name, each));
  }
  return [parts.map((part) => (typeof part === "string" ? part : parameterText(part.name, args[part.name]))).join("")];
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}

function parameterText(name: string, value: unknown): string {
  if (typeof value === "string") {
    if (value.isWellFormed()) return value;
    throw invalid(name, "must be well-formed text");
  }
  const isPlain = typeof value === "boolean" || typeof value === "bigint" || Number.isFinite(value);
  if (!isPlain) throw invalid(name, value === undefined ? "is missing" : "must be text, a number, or true or false");
  return String(value);
}

function jsonOf(name: string, value: unknown, depth: number): Json | undefined {
  if (value === undefined || value === null || typeof value === "boolean") return value;
  if (typeof value === "string" || typeof value === "number") {
    parameterText(name, value);
    return value;
  }
  if (value instanceof Date && !Number.isNaN(value.getTime())) return value.toISOString();
  if (typeof value !== "object" || depth > DEPTH_MAX) throw invalid(name, "cannot be sent as JSON");
  if (Array.isArray(value)) return value.map((item: unknown) => jsonOf(name, item, depth + 1) ?? null);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw invalid(name, "cannot be sent as JSON");
  const members = Object.entries(value).flatMap(([key, inner]) => {
    const json = jsonOf(name, inner, depth + 1);
    if (!key.isWellFormed()) throw invalid(name, "must be well-formed text");
    return json === undefined ? [] : [[key, json] as const];
  });
  return Object.fromEntries(members);
}

/** Encodes everything but letters, digits and `-._~`. */
function encoded(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Only the template's own text has empty segments: a value never is one. */
function isLiteralOrStays(segment: string): boolean {
  return segment === "" || staysInPlace(segment);
}

function hasControl(text: string): boolean {
  return /\p{Cc}/u.test(text);
}

function countSlashes(text: string): number {
  return text.split("/").length - 1;
}

const FIELD_CHARACTERS_MAX = 128;

function invalid(name: string, message: string): Refusal {
  const path = name.slice(0, FIELD_CHARACTERS_MAX);
  return new Refusal("INVALID_INPUT", `The arguments do not make a valid request: ${path} ${message}.`, {
    details: { issues: [{ path, message }] },
  });
}
