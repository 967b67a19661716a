/** What a field that is called so holds, whatever stands before it: `contactEmail`, `next_of_kin`. */
const HEADS: ReadonlySet<string> = new Set([
  ...["email", "mail", "phone", "telephone", "mobile", "cellphone", "fax", "msisdn", "whatsapp"],
  ...["birthday", "birthdate", "birthplace", "dob", "ssn", "nino", "cpf", "bsn", "aadhaar", "passport", "iban", "pan"],
  ...["surname", "forename", "firstname", "lastname", "middlename", "fullname", "givenname", "familyname"],
  ...["maidenname", "salary", "gender", "religion", "ethnicity", "cvv", "cvc", "postcode", "zipcode"],
]);

/** Heads of two words and more, in words. */
const COMPOUNDS: ReadonlySet<string> = new Set([
  ...[
    "e mail",
    "cell phone",
    "date of birth",
    "place of birth",
    "birth date",
    "birth day",
    "birth place",
    "birth name",
  ],
  ...["next of kin", "first name", "last name", "middle name", "full name", "given name", "family name", "legal name"],
  ...["maiden name", "customer name", "patient name", "employee name", "cardholder name", "contact name"],
  ...["national id", "tax id", "bank account", "driver license", "driving licence"],
  ...["postal code", "post code", "zip code"],
  ...["annual income", "net worth", "home address", "postal address", "mailing address", "billing address"],
  ...["shipping address", "street address", "email address", "mail address", "customer address", "employer address"],
]);

/** Heads only in front of `number`, `no` or `nr`: a `tax` may be an amount. */
const NUMBERED: ReadonlySet<string> = new Set(["tax", "card", "social security"]);

const NUMBER_WORDS: ReadonlySet<string> = new Set(["number", "no", "nr", "num"]);

/** Words at a name's end that say which of several, or in what form. */
const TRAILERS: ReadonlySet<string> = new Set([
  ...["number", "no", "nr", "num", "value", "text", "raw", "primary", "secondary", "home", "work", "private", "line"],
]);

/** Words in front that say that it is hidden already. */
const HIDDEN: ReadonlySet<string> = new Set(["masked", "hashed", "redacted", "hidden", "anonymized", "anonymised"]);

/** A longer name says nothing. UTF-16 units. */
const NAME_CHARS_MAX = 96;
const COMPOUND_WORDS_MAX = 3;

/**
 * Whether a field's name says that a person's own particulars stand in it. `name` may be in camel, snake or kebab case. Its last
 * words decide: an `emailTemplate` is a template, an `ipAddress` no home.
 */
export function namesPersonalData(name: string): boolean {
  if (name.length > NAME_CHARS_MAX) return false;
  const words = wordsOf(name);
  if (words.some((word) => HIDDEN.has(word))) return false;
  let isNumber = false;
  while (words.length > 1 && TRAILERS.has(words.at(-1) ?? "") && !isPersonal(words, isNumber)) {
    isNumber ||= NUMBER_WORDS.has(words.pop() ?? "");
  }
  return isPersonal(words, isNumber);
}

function isPersonal(words: readonly string[], isNumber: boolean): boolean {
  if (words.length === 1 && words[0] === "address") return true;
  if (HEADS.has(words.at(-1) ?? "")) return true;
  for (let count = 1; count <= COMPOUND_WORDS_MAX; count += 1) {
    const compound = words.slice(-count).join(" ");
    if (COMPOUNDS.has(compound) || (isNumber && NUMBERED.has(compound))) return true;
  }
  return false;
}

/** In lower case and the singular, digits at a word's end taken off. */
function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]/u)
    .map((word) => singular(word.replace(/\d{1,8}$/, "")))
    .filter((word) => word !== "");
}

function singular(word: string): string {
  if (word === "addresses") return "address";
  return word.length > 3 && word.endsWith("s") && !word.endsWith("ss") ? word.slice(0, -1) : word;
}
