package authzen

import rego.v1

default decision := false

# Small payments of the agent with the department that pays.
decision if {
	input.action.name == "tools/call"
	input.resource.id == "pay"
	input.subject.properties.claims.department == "finance"
	input.context.arguments.amount <= 100
}

# Large ones, after a person has approved them.
decision if {
	requestable
	input.context.approval.id != ""
	count(input.context.approval.approvers) == 1
}

requestable if {
	input.resource.id == "pay"
	input.subject.properties.claims.department == "finance"
	input.context.arguments.amount > 100
}

# An engine that fails on some input.
broken if input.context.arguments.amount == 13

context := {"reason_admin": {"en": "large payments need a manager"}, "access_request": {"template": "manager"}} if {
	requestable
} else := {"reason_admin": {"en": "only the finance department pays"}}

answer := {"decision": decision, "context": context} if not broken
