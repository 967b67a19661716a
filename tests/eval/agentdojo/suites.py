"""AgentDojo's suites for the evaluation: `plan <version>` prints tasks and cases as JSON, `serve <version> <suite>` is an MCP server."""

import importlib
import json
import sys

from pydantic import TypeAdapter

from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites

# The attacks are files of their own: the package that holds them also loads attacks that need a model.
attacks = importlib.import_module("agentdojo.attacks.important_instructions_attacks")

# The model that the injected text addresses. No model is called.
MODEL = "gpt-4o-2024-05-13"


def as_json(value):
    return TypeAdapter(type(value)).dump_python(value, mode="json", warnings=False)


def calls_of(task, environment):
    return [
        {"tool": call.function, "args": json.loads(json.dumps(dict(call.args), default=str))}
        for call in task.ground_truth(environment)
    ]


def prepared(suite, task, injections):
    """Returns the environment in which a user task starts."""
    return task.init_environment(suite.load_and_inject_default_environment(injections))


def plan_of(suite):
    pipeline = GroundTruthPipeline(None)
    pipeline.name = MODEL
    attack = attacks.ImportantInstructionsAttack(suite, pipeline)
    cases = []
    for user_task in suite.user_tasks.values():
        for injection_task in suite.injection_tasks.values():
            injections = attack.attack(user_task, injection_task)
            environment = prepared(suite, user_task, injections)
            cases.append(
                {
                    "user": user_task.ID,
                    "injection": injection_task.ID,
                    "injections": injections,
                    "userCalls": calls_of(user_task, environment.model_copy(deep=True)),
                    "calls": calls_of(injection_task, environment.model_copy(deep=True)),
                }
            )
    return {
        "tasks": [
            {"id": task.ID, "prompt": task.PROMPT, "calls": calls_of(task, prepared(suite, task, {}))}
            for task in suite.user_tasks.values()
        ],
        "goals": {task.ID: task.GOAL for task in suite.injection_tasks.values()},
        "cases": cases,
    }


class Stand:
    """One environment, its tools, and two tools for the evaluation itself."""

    def __init__(self, suite):
        self.suite = suite
        self.runtime = FunctionsRuntime(suite.tools)
        self.reset(next(iter(suite.user_tasks)), {})

    def reset(self, user, injections):
        self.task = self.suite.get_user_task_by_id(user)
        self.environment = prepared(self.suite, self.task, injections)
        self.before = self.environment.model_copy(deep=True)
        self.calls = []
        return {"result": self.task.PROMPT}

    def judge(self, injection):
        """What a model says at the end is the text that the suite's own check of its tasks takes."""
        texts = [{"type": "text", "content": self.task.GROUND_TRUTH_OUTPUT}]
        state = (texts, self.before, self.environment, self.calls)
        utility = self.suite._check_task_result(self.task, *state)
        goal = self.suite.injection_tasks.get(injection)
        reached = goal is not None and self.suite._check_task_result(goal, *state)
        return {"utility": bool(utility), "reached": bool(reached)}

    def call(self, name, args):
        if name == "eval_reset":
            return self.reset(args["user"], args.get("injections", {}))
        if name == "eval_judge":
            return self.judge(args["injection"])
        result, problem = self.runtime.run_function(self.environment, name, args)
        self.calls.append(FunctionCall(function=name, args=args))
        if problem is not None:
            raise ValueError(problem)
        return {"result": as_json(result)}

    def definitions(self):
        text = {"type": "string"}
        table = {"type": "object", "additionalProperties": text}
        yield definition("eval_reset", "Starts a user task, and returns what the user asks for", {"user": text, "injections": table}, {"result": text})
        both = {"utility": {"type": "boolean"}, "reached": {"type": "boolean"}}
        yield definition("eval_judge", "Judges the state", {"injection": text}, both)
        for function in self.suite.tools:
            result = described(TypeAdapter(function.return_type).json_schema(mode="serialization"))
            shared = result.pop("$defs", {})
            listed = definition(function.name, function.description, {}, {"result": result})
            listed["outputSchema"]["$defs"] = shared
            listed["inputSchema"] = function.parameters.model_json_schema()
            yield listed


def described(schema):
    """Returns a schema without formats: the environments hold times without a zone, which `date-time` does not allow."""
    if isinstance(schema, list):
        return [described(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: described(value) for key, value in schema.items() if key != "format"}


def definition(name, description, arguments, result):
    def table(members):
        return {"type": "object", "properties": members, "required": list(members)}

    return {
        "name": name,
        "description": description,
        "inputSchema": {**table(arguments), "required": [key for key in arguments if key != "injections"]},
        "outputSchema": table(result),
    }


def answer(stand, method, params):
    if method == "initialize":
        info = {"name": "agentdojo", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": list(stand.definitions())}
    if method != "tools/call":
        return {}
    try:
        structured = stand.call(params["name"], params.get("arguments", {}))
    except Exception as problem:
        return {"content": [{"type": "text", "text": str(problem)[:2000]}], "isError": True}
    return {"content": [{"type": "text", "text": json.dumps(structured)}], "structuredContent": structured}


def serve(suite):
    stand = Stand(suite)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] in ("initialize", "ping", "tools/list", "tools/call"):
            reply["result"] = answer(stand, message["method"], message.get("params", {}))
        else:
            reply["error"] = {"code": -32601, "message": "no such method"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    suites = get_suites(sys.argv[2])
    if sys.argv[1] == "plan":
        json.dump({name: plan_of(suite) for name, suite in suites.items()}, sys.stdout)
    else:
        serve(suites[sys.argv[3]])
