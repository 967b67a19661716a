import type { Json } from "../core/types.ts";
import { type Label, labelOf, plainName } from "./labels.ts";
import { isJwk, isPrivateMember } from "./secrets/jwk.ts";
import type { ValuePosition } from "./value-position.ts";

export interface JsonFields {
  readonly [key: string]: Json;
}

/** The very same object when its keys are plain, as most are. */
function withPlainKeys(fields: JsonFields): JsonFields {
  const keys = Object.keys(fields);
  if (keys.every((key) => plainName(key) === key)) return fields;
  return Object.fromEntries(keys.map((key) => [plainName(key), fields[key] as Json]));
}

interface Around {
  readonly above: ValuePosition;
  readonly below: ValuePosition;
}

/** What stands beside each other in one object: the name of a value may. Names are read as they are seen, each of them once. */
export class Neighbours {
  readonly #fields: JsonFields;
  readonly #labels = new Map<string, Label>();

  constructor(fields: JsonFields) {
    this.#fields = withPlainKeys(fields);
  }

  /** Where the value of a field stands that may have another name than its key: a part of a key, or a value whose name is beside or above it. */
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

/** Members that only a cookie has: its name may be anything. */
const OF_COOKIES = ["httpOnly", "sameSite", "hostOnly", "HttpOnly", "SameSite"];

/** Of a Kubernetes secret: all below is secret, however it is called. */
const DATA = /^(?:data|stringData)$/;

const VALUE_CHARS = "value".length;
const NAME_KEYS = ["name", "Name", "key", "Key", "variable", "Variable", "field", "header", "_name", "_key"];

/** `{name: "DB_PASSWORD", value: "…"}`, `{ParameterKey: "DbPassword", ParameterValue: "…"}`: the name that the value has. */
function nameBeside(fields: JsonFields, prefix: string): string | undefined {
  const stem = prefix.endsWith("_") ? prefix.slice(0, -1) : prefix;
  for (const end of NAME_KEYS) {
    const name = Object.hasOwn(fields, stem + end) ? fields[stem + end] : undefined;
    if (typeof name === "string") return name;
  }
  return undefined;
}

/** UTF-16 units, as it is seen and as it is written. */
const FLAG_CHARS_MAX = 64;
const WRITTEN_CHARS_MAX = 1_024;

/** A hyphen, or what may stand for one or for nothing. One character: linear. */
const MAY_BEGIN_FLAG = /^[-%&\\"']|^[^\x20-\x7e]/;

/** `["--password", "…"]`: the flag that a program's argument follows. */
export function flagBefore(values: readonly Json[], index: number): string | undefined {
  const before = index === 0 ? undefined : values[index - 1];
  if (typeof before !== "string" || before.length > WRITTEN_CHARS_MAX || !MAY_BEGIN_FLAG.test(before)) return undefined;
  const flag = plainName(before);
  return flag.startsWith("--") && flag.length <= FLAG_CHARS_MAX ? flag : undefined;
}
