import type { Fault } from "../../../core/errors.ts";
import type { KindReport } from "../../../core/target-kind.ts";
import type { Tool } from "../../../core/types.ts";
import type { Contract, Method } from "./contract.ts";
import type { MessageShape } from "./message-shape.ts";
import { listShape, outputSchemaNotes } from "./schema-faults.ts";

export interface ContractReport extends Required<Pick<KindReport, "contracts" | "toolNotes">> {
  /** Contracts that differ from the ones that the configuration pins. */
  readonly problems: readonly string[];
}

/** Reports the contracts and how well the tools fit them. Call it once all tools are bound: only what they use counts. */
export function contractReport(contracts: readonly Contract[], tools: readonly Tool[]): ContractReport {
  const bySystem = new Map(contracts.map((contract) => [contract.system, contract]));
  const states = contracts.map((contract) => ({ contract, sha256: contract.sha256() }));
  return {
    contracts: states.map(({ contract: { system, origin, pin }, sha256 }) => ({
      system,
      origin,
      sha256,
      isPinned: pin !== undefined,
    })),
    toolNotes: tools.flatMap((tool) => notesOf(tool, bySystem).map((note) => ({ tool: tool.name, ...note }))),
    problems: states.flatMap(({ contract, sha256 }) => pinProblem(contract, sha256)),
  };
}

function pinProblem({ system, origin, pin }: Contract, sha256: string): readonly string[] {
  if (pin === undefined || pin === sha256) return [];
  return [
    `systems.${system}.contractSha256: the contract is not the pinned one: pinned sha256:${pin}, the ${origin} now ${
      origin === "proto files" ? "give" : "gives"
    } sha256:${sha256} for the tools that are registered; look at what has changed in the messages or the tools, and if it is right, pin the new hash`,
  ];
}

function notesOf(tool: Tool, contracts: ReadonlyMap<string, Contract>): readonly Fault[] {
  const { target } = tool;
  if (!("grpc" in target)) return [];
  const method = contracts.get(target.system)?.method(target);
  return typeof method === "object" ? outputSchemaNotes(tool.output, answerShape(method)) : [];
}

function answerShape({ responseStream, responseShape }: Method): MessageShape {
  return responseStream ? listShape(responseShape) : responseShape;
}
