import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Contract, type Method, type ProtoSource } from "../../../../src/targets/grpc/contract/contract.ts";

export const KINDS_FOLDER = join(import.meta.dir, "..", "kinds");
const SET = join(KINDS_FOLDER, "kinds.binpb");

export const KINDS_PROTO: ProtoSource = { protoDirs: [KINDS_FOLDER] };
/** A descriptor set that buf has built from the same files. */
export const KINDS_SET: ProtoSource = { descriptorSet: { bytes: readFileSync(SET), path: SET } };

export function kindsTarget(method: string, service = "Kinds") {
  return { system: "kinds", grpc: { package: "kinds.v1", service, method } } as const;
}

export function kindsMethod(name: string, source: ProtoSource = KINDS_SET): Method {
  const found = new Contract("kinds", source).method(kindsTarget(name));
  if (typeof found === "string") throw new Error(found);
  return found;
}
