import { BOUNDED_TEXT_LIMITS, parseAnswerJson } from "../../core/strict-json.ts";
import { jsonWithout, textWithout } from "../../egress/sent-secrets.ts";
import type { MessageReceiver } from "./channel.ts";

/** Messages in what a server sends, bounded, without the secrets that the server was given. */

/** Bytes that are not messages, after which a connection is ended. */
const STRAY_BYTES_MAX = 65_536;
export const LOGGED_CHARACTERS_MAX = 1_024;
/** Lines of one connection that are logged: a server can send thousands of lines of one character. */
export const LOGGED_LINES_MAX = 1_000;

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Reads one text. `secrets`: those that the server may show in it. */
export type ReadMessage = (text: Uint8Array, secrets: readonly string[]) => void;

/** Returns a reader of texts that passes on messages, and counts and logs everything else. */
export function messageReader(receiver: MessageReceiver, end: (reason: string) => void): ReadMessage {
  let strayBytes = 0;
  let logged = 0;
  let hasEnded = false;
  return (bytes, secrets) => {
    if (hasEnded) return;
    const text = bytes.byteLength === 0 ? "" : decodedText(bytes);
    const value = text === undefined || text === "" ? undefined : jsonIn(text, secrets);
    if (value !== undefined && receiver.message(value, bytes.byteLength)) return;
    if (bytes.byteLength > 0 && logged < LOGGED_LINES_MAX) {
      logged += 1;
      const shown = text === undefined ? "(not UTF-8)" : textWithout(text, secrets);
      receiver.log("not a message", shown.slice(0, LOGGED_CHARACTERS_MAX));
    }
    strayBytes += bytes.byteLength + 1;
    if (strayBytes <= STRAY_BYTES_MAX) return;
    hasEnded = true;
    end("it sends too much that is not a message");
  };
}

function decodedText(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Returns undefined for a text that is not JSON. */
export function jsonIn(text: string, secrets: readonly string[] = []): unknown {
  try {
    return jsonWithout(parseAnswerJson(text, BOUNDED_TEXT_LIMITS), text, secrets);
  } catch {
    return undefined;
  }
}
