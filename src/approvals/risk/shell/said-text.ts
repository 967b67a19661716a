import type { Command, CommandNode } from "unbash";
import { isInput, readRedirects } from "./redirects.ts";
import { fieldsOf, textOf, UNKNOWN, type VariableLookup } from "./word.ts";

/** The fields that a word becomes; an assignment stays one. */
export function wordFields(part: Command["suffix"][number], lookup: VariableLookup): readonly string[] {
  if (part.type === "Word") return fieldsOf(part, lookup);
  if (part.type !== "Assignment") return [];
  const index = part.index === undefined ? "" : "[]";
  return [`${part.name}${index}=${part.value.type === "Word" ? textOf(part.value, lookup) : UNKNOWN}`];
}

/** What `echo`, `printf` or a bare `cat` hands to the next program of a pipeline, when that can be told. */
export function said(node: CommandNode, lookup: VariableLookup): readonly string[] {
  if (node.type !== "Command") return [];
  if (node.name?.value === "cat" && node.suffix.every((part) => part.type !== "Word")) {
    return readRedirects(node.redirects, [lookup]).input;
  }
  if (node.redirects.some((redirect) => !isInput(redirect))) return [];
  if (node.name?.value !== "echo" && node.name?.value !== "printf") return [];
  const words = node.suffix.flatMap((part) => wordFields(part, lookup)).filter((word) => !/^-[neE]+$/.test(word));
  return [words.join(" ").replaceAll("\\n", "\n"), ...words];
}
