import { defineTool } from "safe-tool-call";
import { z } from "zod";

const QUESTION_CHARACTERS_MAX = 2_000;
const CONTEXT_CHARACTERS_MAX = 4_000;
const CHOICES_MAX = 10;
const CHOICE_CHARACTERS_MAX = 200;
const ANSWER_CHARACTERS_MAX = 4_000;

/** The question is the approval, and what the person says with the yes is the result: no mode, grant or bare yes answers it. */
export const askOperator = defineTool({
  name: "ask_operator",
  description: "Ask a person and get the answer as the result. Give choices when the answer is one of a few.",
  classification: "read",
  category: "ask",
  permissions: { required: ["operators:ask"] },
  input: z.strictObject({
    question: z.string().min(1).max(QUESTION_CHARACTERS_MAX),
    choices: z.array(z.string().min(1).max(CHOICE_CHARACTERS_MAX)).min(1).max(CHOICES_MAX).optional(),
    context: z.string().max(CONTEXT_CHARACTERS_MAX).optional().describe("What a person must know to answer"),
  }),
  target: { system: "people" },
  approval: {
    message: "An agent asks you. Your answer is handed to it as it is: put no secret into it.",
    scopes: ["once"],
    answer: { choices: ({ choices }) => choices },
  },
  output: z.strictObject({ answer: z.string().max(ANSWER_CHARACTERS_MAX), answeredAt: z.iso.datetime() }),
  outputPolicy: { answer: "allow", answeredAt: "allow" },
  handler: (_question, { answer }) => {
    if (answer === undefined) throw new Error("nobody has answered");
    return { answer: answer.text, answeredAt: new Date(answer.at).toISOString() };
  },
  examples: {
    accepts: [
      { question: "Which cluster?" },
      { question: "Go on?", choices: ["yes", "no"], context: "3 of 5 are done." },
    ],
    rejects: [{ question: "" }, { question: "Go on?", choices: [] }, { choices: ["yes"] }],
  },
});
