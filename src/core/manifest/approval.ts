import type { Fault } from "../errors.ts";
import { isTable } from "../json.ts";
import { isText, list, oneOf, type Unread, unknownKeys, unless } from "./checks.ts";

const MESSAGE_CHARACTERS_MAX = 500;
const SCOPES = ["once", "session"];
const RISKS = ["medium", "high", "critical"];

/** What is wrong with a manifest's `approval`. */
export function approvalFaults({ approval: declared, category, handler }: Unread): readonly Fault[] {
  if (declared === undefined) return [];
  if (!isTable(declared)) {
    return [{ field: "approval", message: "must be { required?, needsApproval?, message?, scopes?, risk?, answer? }" }];
  }
  const { required, needsApproval, message, scopes, risk, answer } = declared;
  return [
    ...unknownKeys("approval", declared, ["required", "needsApproval", "message", "scopes", "risk", "answer"]),
    ...unless(required === undefined || typeof required === "boolean", "approval.required", "must be a boolean"),
    ...unless(
      needsApproval === undefined || typeof needsApproval === "function",
      "approval.needsApproval",
      "must be a function of the input",
    ),
    ...unless(
      message === undefined || (isText(message) && message !== "" && message.length <= MESSAGE_CHARACTERS_MAX),
      "approval.message",
      `must be a text of at most ${MESSAGE_CHARACTERS_MAX} characters`,
    ),
    ...unless(
      scopes === undefined || (Array.isArray(scopes) && list(scopes).every((scope) => oneOf(SCOPES, scope))),
      "approval.scopes",
      `must be a list of ${SCOPES.join(", ")}`,
    ),
    ...unless(
      risk === undefined || oneOf(RISKS, risk),
      "approval.risk",
      `must be one of ${RISKS.join(", ")}: a manifest raises a risk and never lowers it`,
    ),
    ...(answer === undefined ? [] : answerFaults(answer, category === "ask" && typeof handler === "function")),
  ];
}

/** A person's answer goes to a function, which is all that such a tool is. */
function answerFaults(answer: unknown, isQuestion: boolean): readonly Fault[] {
  if (!isTable(answer)) return [{ field: "approval.answer", message: "must be { choices? }" }];
  return [
    ...unknownKeys("approval.answer", answer, ["choices"]),
    ...unless(
      answer["choices"] === undefined || typeof answer["choices"] === "function",
      "approval.answer.choices",
      "must be a function of the input",
    ),
    ...unless(isQuestion, "approval.answer", "is for a tool of category ask that is a function (handler)"),
  ];
}
