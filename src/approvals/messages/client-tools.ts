/** Tool that a chat client runs to show a person the approval request. Its name fits the pattern of every provider. */
export const APPROVAL_TOOL = "client_request_approval";

/** Namespace of client tools. Governed tools cannot be in it: their names contain no dots. */
const NAMESPACE = "client.";
/** Prefixes that models add to tool names. */
const WRAPPERS = ["functions.", "default_api.", "default_api:"];
const NAME_CHARACTERS_MAX = 256;

/** Matches all spellings: `client.requestApproval`, `client-request-approval`, `ClientRequestApproval`. */
const APPROVAL_LETTERS = "clientrequestapproval";

/** Returns whether only the application may call this tool, never the model. */
export function isClientTool(name: string): boolean {
  const plain = plainName(name);
  return plain.startsWith(NAMESPACE) || lettersOf(plain) === APPROVAL_LETTERS;
}

/** Returns whether the name is one that the application itself writes. */
export function isApprovalRequest(name: string | undefined): boolean {
  return name === APPROVAL_TOOL || name === "client.requestApproval";
}

/** Normalizes a name the way a lenient parser would read it. */
function plainName(name: string): string {
  const folded = name.slice(0, NAME_CHARACTERS_MAX).normalize("NFKC").toLowerCase().trim();
  const wrapper = WRAPPERS.find((prefix) => folded.startsWith(prefix));
  return wrapper === undefined ? folded : folded.slice(wrapper.length);
}

function lettersOf(name: string): string {
  return name.replace(/[^a-z0-9]/g, "");
}
