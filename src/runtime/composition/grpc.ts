import { ManifestError } from "../../core/errors.ts";
import type { Tool } from "../../core/types.ts";
import type { AssertionSigner } from "../../targets/grpc/assertion.ts";
import type { GrpcHandler, GrpcSystem } from "../../targets/grpc/handler.ts";
import { attempt } from "./problems.ts";

interface GrpcParts {
  readonly systems: ReadonlyMap<string, GrpcSystem>;
  readonly tools: readonly Tool[];
  readonly sign: AssertionSigner | undefined;
  readonly random: () => number;
}

/** What reaches the gRPC systems. Its packages are the largest of all, and are loaded only where there is something to reach. */
export async function openGrpc(
  { systems, tools, sign, random }: GrpcParts,
  problems: string[],
): Promise<GrpcHandler | undefined> {
  if (systems.size === 0 && !tools.some(({ target }) => "grpc" in target)) return NO_GRPC;
  const [{ withReflection }, { grpcHandler }] = await Promise.all([
    import("../../targets/grpc/contract/reflected-systems.ts"),
    import("../../targets/grpc/handler.ts"),
  ]);
  const described = await withReflection(systems, tools, problems);
  return described && attempt(problems, () => grpcHandler({ systems: described, sign, random }));
}

/** Where no system is configured and no tool wants one. */
const NO_GRPC: GrpcHandler = {
  bind: ({ name, target }) => {
    throw new ManifestError(name, [{ field: "target.system", message: `${target.system} is not configured` }]);
  },
  close: async () => {},
  states: () => [],
  certificates: () => [],
  metadataKeys: () => [],
  contracts: () => [],
  status: async () => ({}),
  watch: () => {},
};
