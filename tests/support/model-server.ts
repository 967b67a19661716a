/**
 * A model server for tests of agents. It speaks OpenAI's chat completions and Responses, Anthropic's Messages and Google's
 * generateContent, whole and streamed, says what the test scripts, and refuses conversations that the real servers refuse.
 */

/** A call that the model makes. Text as `args` is sent as it is, also when it is not JSON. */
export interface ScriptedCall {
  readonly name: string;
  readonly args: object | string;
  /** Chosen by the server when it is left out. Google's models send none. */
  readonly id?: string;
}

/** One answer of the model. */
export interface ModelTurn {
  readonly text?: string;
  readonly calls?: readonly ScriptedCall[];
}

export interface OfferedTool {
  readonly name: string;
  readonly description: string;
  readonly schema: Loose;
}

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

/** One request to the model, in the same form for every API. */
export interface Heard {
  readonly api: Api;
  readonly streamed: boolean;
  readonly tools: readonly OfferedTool[];
  /** What the model is told of its calls, in the order of the conversation: JSON is parsed, other text is not. */
  readonly results: readonly Loose[];
  readonly body: Loose;
}

/** The scripted answers; a function reads what the model was sent. */
export type Script = readonly (ModelTurn | ((heard: Heard) => ModelTurn | Promise<ModelTurn>))[];

type Api = "chat" | "responses" | "messages" | "google";

interface MadeCall {
  readonly id: string;
  readonly name: string;
  readonly args: string;
}

interface Answer {
  /** Of the answer: frameworks merge messages of one id. */
  readonly id: string;
  readonly text: string;
  readonly calls: readonly MadeCall[];
}

/** A call and its result share an id (Google: a name). */
interface Part {
  readonly kind: "call" | "result";
  readonly id: string;
  readonly text?: Loose;
}

interface Speech {
  /** Calls and results of a conversation, in its order. */
  readonly parts: (body: Loose) => readonly Part[];
  readonly tools: (body: Loose) => readonly OfferedTool[];
  readonly whole: (answer: Answer) => Loose;
  readonly events: (answer: Answer) => readonly { readonly event?: string; readonly data: Loose }[];
}

export class ModelServer {
  readonly heard: Heard[] = [];
  /** What a real server would refuse, and secrets that were sent to the model. */
  readonly problems: string[] = [];
  readonly #script: Script;
  readonly #secrets: readonly string[];
  readonly #server: ReturnType<typeof Bun.serve>;
  /** Conversations that OpenAI keeps, by the id of their last response. */
  readonly #stored = new Map<string, Loose[]>();
  #calls = 0;

  /** @param secrets texts that no request may contain, such as the token of the service */
  constructor(script: Script, secrets: readonly string[] = []) {
    this.#script = script;
    this.#secrets = secrets;
    this.#server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: (request) => this.#answer(request) });
  }

  /** Without a path: `…/v1` for OpenAI, this for Anthropic and Google. */
  get url(): string {
    return this.#server.url.origin;
  }

  /** What the model was last told of its calls. */
  get results(): readonly Loose[] {
    return this.heard.at(-1)?.results ?? [];
  }

  end(): Promise<void> {
    return this.#server.stop(true);
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const text = await request.text();
    const headers = JSON.stringify([...request.headers]);
    if (this.#secrets.some((secret) => text.includes(secret) || headers.includes(secret)))
      return this.#refuse("a secret was sent");
    const api = apiOf(pathname);
    if (api === undefined) return this.#refuse(`no such endpoint: ${pathname}`);
    const speech = SPEECH[api];
    const sent = JSON.parse(text) as Loose;
    const body = api === "responses" ? this.#continued(sent) : sent;
    const parts = speech.parts(body);
    const unpaired = unpairedOf(parts);
    if (unpaired.length > 0) return this.#refuse(`calls and results do not fit: ${unpaired.join(", ")}`);
    const tools = speech.tools(body);
    const illegal = tools.find(({ name, schema }) => !/^[a-zA-Z0-9_-]{1,64}$/.test(name) || schema?.type !== "object");
    if (illegal !== undefined) return this.#refuse(`an invalid tool: ${illegal.name}`);
    const streamed = body.stream === true || pathname.endsWith(":streamGenerateContent");
    const results = parts.filter(({ kind }) => kind === "result").map((part) => parsed(part.text));
    const heard: Heard = { api, streamed, tools, results, body };
    this.heard.push(heard);
    const step = this.#script[this.heard.length - 1];
    if (step === undefined) return this.#refuse("the script is over");
    const turn = typeof step === "function" ? await step(heard) : step;
    const answer = {
      id: `${this.heard.length}`,
      text: turn.text ?? "",
      calls: (turn.calls ?? []).map((call) => this.#made(call)),
    };
    if (api === "responses") this.#stored.set(`resp_${answer.id}`, [...body.input, ...responseItems(answer)]);
    return streamed ? stream(speech.events(answer)) : Response.json(speech.whole(answer));
  }

  #continued(body: Loose): Loose {
    const input = typeof body.input === "string" ? [{ role: "user", content: body.input }] : body.input;
    return { ...body, input: [...(this.#stored.get(body.previous_response_id) ?? []), ...input] };
  }

  #made({ id, name, args }: ScriptedCall): MadeCall {
    this.#calls += 1;
    return { id: id ?? `call_${this.#calls}`, name, args: typeof args === "string" ? args : JSON.stringify(args) };
  }

  #refuse(problem: string): Response {
    this.problems.push(problem);
    return Response.json(
      { error: { message: problem, type: "invalid_request_error", code: 400, status: "INVALID_ARGUMENT" } },
      { status: 400 },
    );
  }
}

function apiOf(path: string): Api | undefined {
  if (path === "/v1/chat/completions") return "chat";
  if (path === "/v1/responses") return "responses";
  if (path === "/v1/messages") return "messages";
  return /^\/v1(beta)?\/models\/[\w.-]+:(generate|streamGenerate)Content$/.test(path) ? "google" : undefined;
}

function unpairedOf(parts: ReturnType<Speech["parts"]>): readonly string[] {
  const open: string[] = [];
  const problems: string[] = [];
  for (const { kind, id } of parts) {
    if (kind === "call") open.push(id);
    else if (open.includes(id)) open.splice(open.indexOf(id), 1);
    else problems.push(`result without call: ${id}`);
  }
  return [...problems, ...open.map((id) => `call without result: ${id}`)];
}

function parsed(text: Loose): Loose {
  if (typeof text !== "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function stream(events: ReturnType<Speech["events"]>): Response {
  const lines = events.map(({ event, data }) => {
    const text = typeof data === "string" ? data : JSON.stringify(data);
    return `${event === undefined ? "" : `event: ${event}\n`}data: ${text}\n\n`;
  });
  return new Response(lines.join(""), { headers: { "content-type": "text/event-stream" } });
}

/** A text in two parts, as a stream sends it. */
function halves(text: string): readonly string[] {
  const middle = Math.ceil(text.length / 2);
  return [text.slice(0, middle), text.slice(middle)];
}

function textOf(content: Loose): string {
  if (!Array.isArray(content)) return String(content ?? "");
  return content.map((part: Loose) => part.text ?? "").join("");
}

const CHAT = { created: 1, model: "stub" };
const CHAT_USAGE = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };

const chat: Speech = {
  tools: ({ tools = [] }) =>
    tools.map(({ function: { name, description, parameters } }: Loose) => ({ name, description, schema: parameters })),
  parts: ({ messages }) =>
    messages.flatMap(({ role, tool_calls: calls = [], tool_call_id: id, content }: Loose) =>
      role === "tool"
        ? [{ kind: "result", id, text: textOf(content) }]
        : calls.map((call: Loose) => ({ kind: "call", id: call.id })),
    ),
  whole: ({ id: answerId, text, calls }) => ({
    ...CHAT,
    id: `chatcmpl-${answerId}`,
    object: "chat.completion",
    choices: [
      {
        index: 0,
        finish_reason: calls.length > 0 ? "tool_calls" : "stop",
        message: {
          role: "assistant",
          content: text,
          ...(calls.length > 0 && {
            tool_calls: calls.map(({ id, name, args }) => ({
              id,
              type: "function",
              function: { name, arguments: args },
            })),
          }),
        },
      },
    ],
    usage: CHAT_USAGE,
  }),
  events: ({ id: answerId, text, calls }) => {
    const common = { ...CHAT, id: `chatcmpl-${answerId}` };
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      data: { ...common, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] },
    });
    return [
      chunk({ role: "assistant", content: "" }),
      ...halves(text).map((content) => chunk({ content })),
      ...calls.flatMap(({ id, name, args }, index) => [
        chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] }),
        ...halves(args).map((part) => chunk({ tool_calls: [{ index, function: { arguments: part } }] })),
      ]),
      chunk({}, calls.length > 0 ? "tool_calls" : "stop"),
      { data: { ...common, object: "chat.completion.chunk", choices: [], usage: CHAT_USAGE } },
      { data: "[DONE]" },
    ];
  },
};

function responseItems({ id: answerId, text, calls }: Answer): Loose[] {
  const message = {
    ...{ type: "message", id: `msg_${answerId}`, role: "assistant", status: "completed" },
    content: [{ type: "output_text", text, annotations: [] }],
  };
  return [
    ...(text === "" ? [] : [message]),
    ...calls.map(({ id, name, args }) => ({
      ...{ type: "function_call", id: `fc_${id}`, call_id: id, name, arguments: args, status: "completed" },
    })),
  ];
}

function response(answer: Answer, status = "completed"): Loose {
  const output = status === "completed" ? responseItems(answer) : [];
  const usage = {
    ...{ input_tokens: 1, output_tokens: 1, total_tokens: 2 },
    input_tokens_details: { cached_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  };
  return {
    ...{ id: `resp_${answer.id}`, object: "response", created_at: 1, model: "stub", status, output, usage },
    ...{ error: null, incomplete_details: null, parallel_tool_calls: true, tools: [], tool_choice: "auto" },
  };
}

const responses: Speech = {
  tools: ({ tools = [] }) =>
    tools.map(({ name, description, parameters }: Loose) => ({ name, description, schema: parameters })),
  parts: ({ input }) =>
    input.flatMap(({ type, call_id: id, output }: Loose): Part[] => {
      if (type === "function_call") return [{ kind: "call", id }];
      return type === "function_call_output" ? [{ kind: "result", id, text: textOf(output) }] : [];
    }),
  whole: (answer) => response(answer),
  events: (answer) => {
    const all: Loose[] = [{ type: "response.created", response: response(answer, "in_progress") }];
    for (const [output_index, item] of responseItems(answer).entries()) {
      const place = { output_index, item_id: item.id };
      const isCall = item.type === "function_call";
      all.push({
        type: "response.output_item.added",
        output_index,
        item: isCall ? { ...item, arguments: "" } : { ...item, content: [] },
      });
      if (isCall) {
        for (const delta of halves(item.arguments))
          all.push({ type: "response.function_call_arguments.delta", ...place, delta });
        all.push({ type: "response.function_call_arguments.done", ...place, arguments: item.arguments });
      } else {
        const [part] = item.content;
        const at = { ...place, content_index: 0 };
        all.push({ type: "response.content_part.added", ...at, part: { ...part, text: "" } });
        for (const delta of halves(part.text)) all.push({ type: "response.output_text.delta", ...at, delta });
        all.push(
          { type: "response.output_text.done", ...at, text: part.text },
          { type: "response.content_part.done", ...at, part },
        );
      }
      all.push({ type: "response.output_item.done", output_index, item });
    }
    all.push({ type: "response.completed", response: response(answer) });
    return all.map((data, sequence_number) => ({ event: data.type, data: { ...data, sequence_number } }));
  },
};

const MESSAGE = { type: "message", role: "assistant", model: "stub", stop_sequence: null };
const MESSAGE_USAGE = { input_tokens: 1, output_tokens: 1 };

function blocksOf({ text, calls }: Answer): Loose[] {
  const uses = calls.map(({ id, name, args }) => ({ type: "tool_use", id, name, input: parsed(args) }));
  return [...(text === "" ? [] : [{ type: "text", text }]), ...uses];
}

const messages: Speech = {
  tools: ({ tools = [] }) =>
    tools.map(({ name, description, input_schema }: Loose) => ({ name, description, schema: input_schema })),
  parts: ({ messages: said }) =>
    said.flatMap(({ content }: Loose) =>
      (Array.isArray(content) ? content : []).flatMap((block: Loose) => {
        if (block.type === "tool_use") return [{ kind: "call", id: block.id }];
        return block.type === "tool_result"
          ? [{ kind: "result", id: block.tool_use_id, text: textOf(block.content) }]
          : [];
      }),
    ),
  whole: (answer) => ({
    ...MESSAGE,
    id: `msg_${answer.id}`,
    content: blocksOf(answer),
    stop_reason: answer.calls.length > 0 ? "tool_use" : "end_turn",
    usage: MESSAGE_USAGE,
  }),
  events: (answer) => {
    const stop_reason = answer.calls.length > 0 ? "tool_use" : "end_turn";
    const all: Loose[] = [
      {
        type: "message_start",
        message: { ...MESSAGE, id: `msg_${answer.id}`, content: [], stop_reason: null, usage: MESSAGE_USAGE },
      },
    ];
    for (const [index, block] of blocksOf(answer).entries()) {
      const isText = block.type === "text";
      all.push({
        type: "content_block_start",
        index,
        content_block: isText ? { type: "text", text: "" } : { ...block, input: {} },
      });
      for (const part of halves(isText ? block.text : JSON.stringify(block.input))) {
        const delta = isText ? { type: "text_delta", text: part } : { type: "input_json_delta", partial_json: part };
        all.push({ type: "content_block_delta", index, delta });
      }
      all.push({ type: "content_block_stop", index });
    }
    all.push(
      { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: MESSAGE_USAGE },
      { type: "message_stop" },
    );
    return all.map((data) => ({ event: data.type, data }));
  },
};

function candidate(parts: readonly object[]): Loose {
  return {
    candidates: [{ index: 0, finishReason: "STOP", content: { role: "model", parts } }],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    modelVersion: "stub",
  };
}

function googleParts({ text, calls }: Answer): object[] {
  const made = calls.map(({ id, name, args }) => ({
    functionCall: { name, args: parsed(args), ...(!/^call_\d+$/.test(id) && { id }) },
  }));
  return [...(text === "" ? [] : [{ text }]), ...made];
}

const google: Speech = {
  tools: ({ tools = [] }) =>
    tools.flatMap(({ functionDeclarations = [] }: Loose) =>
      // Google reads both spellings: its SDK for Python sends this one in snake case.
      functionDeclarations.map(({ name, description, parametersJsonSchema, parameters_json_schema }: Loose) => ({
        name,
        description,
        schema: parametersJsonSchema ?? parameters_json_schema,
      })),
    ),
  parts: ({ contents }) =>
    contents.flatMap(({ parts = [] }: Loose) =>
      parts.flatMap(({ functionCall: call, functionResponse: result }: Loose) => {
        if (call !== undefined) return [{ kind: "call", id: call.name }];
        return result === undefined ? [] : [{ kind: "result", id: result.name, text: result.response }];
      }),
    ),
  whole: (answer) => candidate(googleParts(answer)),
  events: (answer) => googleParts(answer).map((part) => ({ data: candidate([part]) })),
};

const SPEECH: Readonly<Record<Api, Speech>> = { chat, responses, messages, google };
