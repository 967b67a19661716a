import type { TargetKind } from "../core/target-kind.ts";
import { type CommandContext, command } from "../targets/command/kind.ts";
import { type FilesContext, files } from "../targets/files/kind.ts";
import { inline } from "../targets/function/kind.ts";
import { type GrpcContext, grpc } from "../targets/grpc/kind.ts";

/** What the kinds of targets of this build are opened with. */
export type KindContext = GrpcContext & CommandContext & FilesContext;

/** What a build contains, one property per section. */
export interface Modules {
  readonly targetKinds: readonly TargetKind<KindContext>[];
}

/** What this build contains, one line each. */
export const MODULES: Modules = {
  targetKinds: [
    grpc, //
    command,
    files,
    inline,
  ],
};
