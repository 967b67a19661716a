import { readIntentSeq, type StreamName } from "../chain/chain.ts";
import { type Intent, intentOf } from "./open-intents.ts";

const MARK = '"type":"intent"';

interface Seen {
  readonly seq: number;
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

/** Gathers intents from the lines of the journal and takes those out whose entries stand among the calls. */
export interface IntentFinder {
  look(stream: StreamName, line: Seen): void;
  open(): readonly Intent[];
}

export function collectIntents(known: readonly Intent[]): IntentFinder {
  const open = new Map(known.map((intent) => [intent.seq, intent]));
  return {
    look(stream, { seq, bytes, from, to }) {
      if (stream === "calls") {
        const intentSeq = readIntentSeq(bytes, from, to);
        if (intentSeq !== undefined) {
          open.delete(intentSeq);
        }
        return;
      }
      const text = bytes.toString("utf8", from, to);
      const intent = text.includes(MARK) ? parse(seq, text) : undefined;
      if (intent !== undefined) {
        open.set(seq, intent);
      }
    },
    open: () => [...open.values()],
  };
}

function parse(seq: number, text: string): Intent | undefined {
  try {
    return intentOf(seq, JSON.parse(text));
  } catch {
    return undefined;
  }
}
