import type { Json } from "../core/types.ts";
import { type Label, labelOf, plainName } from "./labels.ts";
import { isJwk, isPrivateMember } from "./secrets/jwk.ts";
import type { ValuePosition } from "./value-position.ts";

export interface JsonFields {
  readonly [key: string]: Json;
}

/** Returns the same object when its keys are already plain, as most are. */
function withPlainKeys(fields: JsonFields): JsonFields {
  const keys = Object.keys(fields);
  if (keys.every((key) => plainName(key) === key)) return fields;
  return Object.fromEntries(keys.map((key) => [plainName(key), fields[key] as Json]));
}

interface Around {
  readonly above: ValuePosition;
  readonly below: ValuePosition;
}

/** The fields of one object, one of which may name the value of another. Each name is read once, without invisible characters. */
export class Neighbours {
  readonly #fields: JsonFields;
  readonly #labels = new Map<string, Label>();

  constructor(fields: JsonFields) {
    this.#fields = withPlainKeys(fields);
  }

  /**
   * Returns the position of a field whose name may not be its key: the name is part of the key, or is in a sibling field or the
   * parent key.
   */
  placeOf(written: string, { above, below }: Around): ValuePosition {
    const key = plainName(written);
    const fields = this.#fields;
    if (isPrivateMember(key)) return isJwk(fields) ? below.called("private_key") : below;
    if (DATA.test(key)) return fields["kind"] === "Secret" ? below.secretBelow() : below;
    if (key === "value" && fields["sensitive"] === true) return below.called("password");
    if (key === "Value" && fields["Type"] === "SecureString") return below.called("password");
    if (key === "value" && OF_COOKIES.some((member) => Object.hasOwn(fields, member)))
      return below.called("session_token");
    const named = nameBeside(fields, key.slice(0, -VALUE_CHARS));
    if (named !== undefined) return below.labelled(this.#labelOf(named));
    return key.length === VALUE_CHARS && above.label !== undefined ? below.labelled(above.label) : below;
  }

  #labelOf(name: string): Label {
    const label = this.#labels.get(name) ?? labelOf(name);
    this.#labels.set(name, label);
    return label;
  }
}

/** Members that only a cookie has. A cookie may have any name. */
const OF_COOKIES = ["httpOnly", "sameSite", "hostOnly", "HttpOnly", "SameSite"];

/** Fields of a Kubernetes Secret: everything below is secret, whatever its name. */
const DATA = /^(?:data|stringData)$/;

const VALUE_CHARS = "value".length;
const NAME_KEYS = ["name", "Name", "key", "Key", "variable", "Variable", "field", "header", "_name", "_key"];

/**
 * Returns the name in a sibling field: `{name: "DB_PASSWORD", value: "…"}`, `{ParameterKey: "DbPassword", ParameterValue: "…"}`.
 */
function nameBeside(fields: JsonFields, prefix: string): string | undefined {
  const stem = prefix.endsWith("_") ? prefix.slice(0, -1) : prefix;
  for (const end of NAME_KEYS) {
    const name = Object.hasOwn(fields, stem + end) ? fields[stem + end] : undefined;
    if (typeof name === "string") return name;
  }
  return undefined;
}

/** Maximum length in UTF-16 units, after and before decoding. */
const FLAG_CHARS_MAX = 64;
const WRITTEN_CHARS_MAX = 1_024;

/** Matches a hyphen, or a character that may decode to a hyphen or to nothing. Linear, because it reads one character. */
const MAY_BEGIN_FLAG = /^[-%&\\"']|^[^\x20-\x7e]/;

/** Returns the flag before a program argument, as in `["--password", "…"]`. */
export function flagBefore(values: readonly Json[], index: number): string | undefined {
  const before = index === 0 ? undefined : values[index - 1];
  if (typeof before !== "string" || before.length > WRITTEN_CHARS_MAX || !MAY_BEGIN_FLAG.test(before)) return undefined;
  const flag = plainName(before);
  return flag.startsWith("--") && flag.length <= FLAG_CHARS_MAX ? flag : undefined;
}
