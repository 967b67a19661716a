import { Refusal } from "../../core/errors.ts";
import type { Quarantine, UpstreamEvent } from "../../core/target-kind.ts";
import type { Json } from "../../core/types.ts";
import {
  allOf,
  bounded,
  type Definition,
  differences,
  excerptsOf,
  linesOfDefinition,
  pinnedPart,
} from "./definitions.ts";
import type { Listed } from "./session.ts";

/** The pin of a tool that this service offers. */
interface Pin {
  /** Undefined until the first definition was read, for a tool without a pin. */
  sha256: string | undefined;
  readonly isDeclared: boolean;
  /** The definition that the pin covers, when it is known. */
  definition: Json | undefined;
  /** Set while the tool is not called: its definition is not the pinned one. */
  quarantine: Quarantined | undefined;
}

interface Quarantined extends Quarantine {
  /** The changes in bounded lines, for the log and the journal. */
  readonly excerpts: readonly string[];
}

const NOT_OFFERED = "the server does not offer it";
const CHANGED = "its definition is not the pinned one";

/** The tools of one server that this service offers: which definition each must have, and which are quarantined. */
export class Pins {
  readonly #pins = new Map<string, Pin>();
  readonly #system: string;
  readonly #report: (event: UpstreamEvent) => void;

  constructor(system: string, report: (event: UpstreamEvent) => void) {
    this.#system = system;
    this.#report = report;
  }

  get hasQuarantines(): boolean {
    return [...this.#pins.values()].some(({ quarantine }) => quarantine !== undefined);
  }

  pinOf(tool: string): Readonly<Pin> | undefined {
    return this.#pins.get(tool);
  }

  /** Returns events for the tools that are quarantined now. */
  quarantines(): readonly UpstreamEvent[] {
    return [...this.#pins].flatMap(([tool, { quarantine }]) =>
      quarantine === undefined ? [] : [this.#quarantined(tool, quarantine)],
    );
  }

  #quarantined(tool: string, { reason, excerpts }: Quarantined): UpstreamEvent {
    return { type: "quarantined", system: this.#system, tool: bounded(tool), reason, changes: excerpts };
  }

  /** Adds a tool. Returns the problem with its pin. */
  add(tool: string, sha256: string | undefined, definition: Json | undefined): string | undefined {
    const known = this.#pins.get(tool);
    if (known?.isDeclared === true) {
      return sha256 === undefined || sha256 === known.sha256 ? undefined : "another tool pins another definition";
    }
    const pinned = definition === undefined ? undefined : comparable(definition);
    this.#pins.set(tool, { sha256, isDeclared: sha256 !== undefined, definition: pinned, quarantine: undefined });
    return undefined;
  }

  /**
   * Returns the hash of the definition that a call would use.
   *
   * @throws {Refusal} TARGET_UNAVAILABLE for a quarantined tool
   */
  hashOf(tool: string): string {
    const pin = this.#pins.get(tool);
    if (pin?.quarantine !== undefined) throw this.#refusal(tool, pin.quarantine.reason);
    if (pin?.sha256 === undefined) throw this.#refusal(tool, NOT_OFFERED);
    return pin.sha256;
  }

  /**
   * Returns the definition of a list for a call that was planned with a hash.
   *
   * @throws {Refusal} TARGET_UNAVAILABLE for a quarantined tool, and when it is another definition
   */
  definitionFor({ tool, sha256 }: PlannedUse, { definitions, unusable }: Listed): Definition {
    const pin = this.#pins.get(tool);
    const definition = definitions.get(tool);
    if (pin?.quarantine !== undefined) throw this.#refusal(tool, pin.quarantine.reason);
    if (definition === undefined) throw this.#refusal(tool, unusable.get(tool) ?? NOT_OFFERED);
    if (definition.sha256 !== pin?.sha256) throw this.#refusal(tool, CHANGED);
    if (definition.sha256 !== sha256) {
      const message = "The tool's definition changed after the call was planned. Call again.";
      throw new Refusal("TARGET_UNAVAILABLE", message, { cause: { system: this.#system, tool } });
    }
    return definition;
  }

  #refusal(tool: string, reason: string): Refusal {
    const message = "The tool is not available: its server changed it. An operator must look at the change.";
    return new Refusal("TARGET_UNAVAILABLE", message, {
      isLasting: true,
      cause: { system: this.#system, tool, reason, hint: "stc check shows the change" },
    });
  }

  /** Compares all pinned tools with a list of the server. `isOwned`: a caller's own list, which need not have every tool. */
  compare(listed: Listed, isOwned: boolean): void {
    for (const [tool, pin] of this.#pins) {
      const isMissing = !listed.definitions.has(tool) && !listed.unusable.has(tool);
      if (!isOwned || !isMissing) this.#compareTool(tool, pin, listed);
    }
  }

  #compareTool(tool: string, pin: Pin, { definitions, unusable }: Listed): void {
    const system = this.#system;
    const definition = definitions.get(tool);
    if (definition !== undefined && (pin.sha256 ?? definition.sha256) === definition.sha256) {
      pin.sha256 = definition.sha256;
      pin.definition = definition.pinned;
      if (pin.quarantine === undefined) return;
      pin.quarantine = undefined;
      this.#report({ type: "restored", system, tool: bounded(tool), reason: "its definition is the pinned one again" });
      return;
    }
    // A tool without a pin that was never offered: there is nothing that it changed from.
    if (definition === undefined && pin.sha256 === undefined) return;
    const reason = unusable.get(tool) ?? (definition === undefined ? NOT_OFFERED : CHANGED);
    const changes = definition === undefined ? UNCHANGED : changesOf(pin, definition);
    const before = pin.quarantine;
    pin.quarantine = { reason, ...changes };
    const isKnown = before?.reason === reason && before.changes.join() === changes.changes.join();
    if (!isKnown) this.#report(this.#quarantined(tool, pin.quarantine));
  }
}

/** A call with the hash of the definition for which it was planned. */
export interface PlannedUse {
  readonly tool: string;
  readonly sha256: string;
}

type Changes = Pick<Quarantined, "changes" | "excerpts">;

const UNCHANGED: Changes = { changes: [], excerpts: [] };
const WHERE = "stc check and the tool's page in the console show all of it";

function changesOf({ sha256, definition }: Pin, now: Definition): Changes {
  const hashes = `sha256: ${sha256} → ${now.sha256}`;
  if (definition === undefined) {
    const excerpts = [hashes, "(the pinned definition itself is not known: set target.mcp.definition)"];
    return { excerpts: [...excerpts, WHERE], changes: [...excerpts, "the definition now:", ...linesOfDefinition(now)] };
  }
  const found = differences(definition, now.pinned);
  const other = found.length > 0 ? [] : ["(the server's identity: its address, its name, or its certificate)"];
  const [excerpts, changes] = [excerptsOf(found), allOf(found)];
  const isWhole = excerpts.length === changes.length;
  return {
    excerpts: [hashes, ...other, ...excerpts, ...(isWhole ? [] : [WHERE])],
    changes: [hashes, ...other, ...changes],
  };
}

/** Returns the part of a manifest's definition that can be compared: undefined for one that is too large. */
function comparable(definition: Json): Json | undefined {
  try {
    return pinnedPart(definition as Readonly<Record<string, Json>>);
  } catch {
    return undefined;
  }
}
