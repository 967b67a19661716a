/** The tool that a chat client runs: it shows a person the question. Its name fits every provider's pattern. */
export const APPROVAL_TOOL = "client_request_approval";

/** A namespace that no governed tool can be in: their names hold no dots. */
const NAMESPACE = "client.";
/** What models put before a name that they were given without it. */
const WRAPPERS = ["functions.", "default_api.", "default_api:"];
const NAME_CHARACTERS_MAX = 256;

/** `client_request_approval` in any spelling: `client.requestApproval`, `client-request-approval`, `ClientRequestApproval`. */
const APPROVAL_LETTERS = "clientrequestapproval";

/** Whether a name is one that only the application may call, never the model. */
export function isClientTool(name: string): boolean {
  const plain = plainName(name);
  return plain.startsWith(NAMESPACE) || lettersOf(plain) === APPROVAL_LETTERS;
}

/** The spellings that the application writes. */
export function isApprovalRequest(name: string | undefined): boolean {
  return name === APPROVAL_TOOL || name === "client.requestApproval";
}

/** As whoever reads names carelessly would take it. */
function plainName(name: string): string {
  const folded = name.slice(0, NAME_CHARACTERS_MAX).normalize("NFKC").toLowerCase().trim();
  const wrapper = WRAPPERS.find((prefix) => folded.startsWith(prefix));
  return wrapper === undefined ? folded : folded.slice(wrapper.length);
}

function lettersOf(name: string): string {
  return name.replace(/[^a-z0-9]/g, "");
}
