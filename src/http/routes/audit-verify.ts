import type { FastifyInstance } from "fastify";
import { unknownParams } from "../../audit/query/params.ts";
import { LogVerifier } from "../../audit/verify/log-verifier.ts";
import { sendJson } from "../error-reply.ts";
import type { Places } from "../places.ts";
import { type AuditDoor, type AuditDoorOptions, budget, malformed, paramsOf } from "./audit-door.ts";

export interface AuditVerifyOptions extends AuditDoorOptions {
  readonly door: AuditDoor;
  readonly places: Places;
}

/**
 * `GET /audit/verify`: whether the log holds. What came since the last reading of the whole log is verified first, then a
 * part of the next such reading; the answer to whoever asks meanwhile is the same.
 */
export function auditVerifyRoute(app: FastifyInstance, options: AuditVerifyOptions): void {
  const { auditDir: dir, checkpointKey, clock, door, places } = options;
  const verifier = new LogVerifier({ dir, keys: checkpointKey === undefined ? [] : [checkpointKey], clock });

  app.get("/audit/verify", (request, reply) =>
    door.serve(request, places, async (caller) => {
      const faults = unknownParams(paramsOf(request), []);
      if (faults.length > 0) throw malformed(faults);
      await door.record(caller, "verify", {});
      return sendJson(reply, 200, await verifier.status(budget(clock)));
    }),
  );
}
