import { readFileSync } from "node:fs";
import { checkProof, type Proof, type ProofVerdict, prove, readProof } from "../../audit/chain/proof.ts";
import { errorText } from "../../core/error-text.ts";
import { print, StdoutError } from "../output.ts";
import { auditPlace, EXIT, refuse } from "./directory.ts";
import { readKey } from "./verify.ts";

/** The proof or a key cannot be read. */
const UNREADABLE = 5;
const NOT_IN_LOG = 1;
const NOT_SIGNED = 4;

/** `stc audit prove`: prints a proof that the log contains a call. Exit code: 0 done; 1 no proof available; 66 no directory. */
export function auditProve(id: string, { dir }: { readonly dir?: string }): void {
  const place = auditPlace(dir);
  if (place === undefined) return;
  try {
    print.json(prove(place.dir, id), 2);
  } catch (error) {
    if (error instanceof StdoutError) throw error;
    print.error(errorText(error));
    process.exitCode = EXIT.nothing;
  }
}

export interface VerifyProofOptions {
  readonly key: readonly string[];
  readonly json?: boolean;
}

/**
 * `stc audit verify-proof`: checks a proof with the file and the public key, without the log. Exit code: 0 proved; 1 not in the
 * log; 4 invalid signature; 5 unreadable.
 */
export function auditVerifyProof(file: string, { key, json }: VerifyProofOptions): void {
  if (key.length === 0) {
    refuse(["a proof is checked with the public key of the checkpoints: give --key FILE"]);
    return;
  }
  try {
    const proof = readProof(readFileSync(file, "utf8"));
    const verdict = checkProof(proof, key.map(readKey));
    if (!verdict.ok) process.exitCode = verdict.isSignature ? NOT_SIGNED : NOT_IN_LOG;
    if (json === true) print.json(answer(proof, verdict));
    else if (verdict.ok) {
      // The proof counts lines from 0, as RFC 6962 does; people count from 1.
      print.line(`proved: line ${proof.index + 1} of ${verdict.checkpoint.size} in ${verdict.checkpoint.origin}`);
      print.line(proof.line);
    } else print.error(`not proved: ${verdict.reason}`);
  } catch (error) {
    if (error instanceof StdoutError) throw error;
    print.error(errorText(error));
    process.exitCode = UNREADABLE;
  }
}

function answer({ index }: Proof, verdict: ProofVerdict): object {
  if (!verdict.ok) return { ok: false, index, reason: verdict.reason };
  const { origin, size } = verdict.checkpoint;
  return { ok: true, index, origin, size };
}
