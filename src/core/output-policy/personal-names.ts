/** Longer names are ignored (UTF-16 units). */
const NAME_CHARS_MAX = 96;
/** Longer runs of letters are not split into words (UTF-16 units). */
const RUN_CHARS_MAX = 40;

/**
 * Returns the ways to read a field's name as words, in lower case and singular, without trailing digits:
 * `primaryEmails`, `primary_email`, `Primary-EMAIL2` and `primaryemail` all give `primary email`. A run of letters is
 * split only into words of `vocabulary`.
 */
function readings(name: string, vocabulary: ReadonlySet<string>): readonly (readonly string[])[] {
  if (name.length > NAME_CHARS_MAX) return [];
  const text = name.normalize("NFKC");
  const camel = text.replace(/([\p{Ll}\d])(\p{Lu})/gu, "$1 $2");
  const found = [wordsIn(camel), wordsIn(camel.replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2"))];
  const joined = wordsIn(text.replace(/[^\p{L}\p{N}]/gu, ""))[0];
  if (joined !== undefined) found.push([joined]);
  return distinct(found.map((words) => words.flatMap((word) => splitRun(word, vocabulary))));
}

/** Returns whether a name is plural: `emails`, `phone_numbers`. */
export function isPlural(name: string): boolean {
  const last = name.replace(/[^\p{L}]+$/u, "").toLowerCase();
  return last.endsWith("s") && singular(last) !== last;
}

function wordsIn(text: string): readonly string[] {
  return text
    .toLowerCase()
    .split(/[^\p{L}\p{N}]/u)
    .map((word) => singular(word.replace(/\d{1,8}$/, "")))
    .filter((word) => word !== "");
}

/** Endings of singular words such as `address`, `status`, `diagnosis`. */
const SINGULAR_ENDINGS = /(?:ss|us|is)$/;

function singular(word: string): string {
  if (word.endsWith("addresses")) return word.slice(0, -2);
  return word.length > 3 && word.endsWith("s") && !SINGULAR_ENDINGS.test(word) ? word.slice(0, -1) : word;
}

/** Splits a run of letters into words that are all in the vocabulary; returns the run when that is not possible. */
function splitRun(run: string, vocabulary: ReadonlySet<string>): readonly string[] {
  if (vocabulary.has(run) || run.length > RUN_CHARS_MAX) return [run];
  /** The shortest list of words for each prefix of the run. */
  const ways: (readonly string[] | undefined)[] = [[]];
  for (let end = 1; end <= run.length; end += 1) {
    for (let start = 0; start < end; start += 1) {
      const before = ways[start];
      const word = run.slice(start, end);
      const known = vocabulary.has(word) || (end < run.length && vocabulary.has(singular(word)));
      if (before === undefined || !known || before.length + 1 >= (ways[end]?.length ?? RUN_CHARS_MAX)) continue;
      ways[end] = [...before, singular(word)];
    }
  }
  return ways[run.length] ?? [run];
}

function distinct(lists: readonly (readonly string[])[]): readonly (readonly string[])[] {
  return [...new Map(lists.map((words) => [words.join(" "), words])).values()];
}

/** `certain`: the value is personal data; `likely`: it may be something else. */
type Certainty = "certain" | "likely";

/** The indication of personal data in the names on the path to a value. */
interface PersonalName {
  /** Index of the name that indicates personal data. */
  readonly at: number;
  readonly certainty: Certainty;
  /** True when such a value can be a number: a telephone number can, an e-mail address cannot. */
  readonly takesNumber: boolean;
}

const PHRASE_WORDS_MAX = 3;

/**
 * Returns whether the names on the path to a field (without lists) indicate personal data, and which name does. The
 * last words of a name decide, together with the name above it: an `emailTemplate` is a template, and a `pod.name` is
 * not a person's name.
 */
export function personalName(names: readonly string[]): PersonalName | undefined {
  const read = names.map((name) => readings(name, VOCABULARY));
  const isNonRevealing = read.at(-1)?.some((words) => NON_REVEALING.has(words.at(-1) ?? "")) ?? false;
  let likely: PersonalName | undefined;
  for (const [at, own] of read.entries()) {
    const above = read.slice(0, at).findLast((words) => !isWrapper(words)) ?? [[]];
    const found = strongest(own.flatMap((words) => above.map((over) => assess(words, over.slice(-2)))));
    if (found === undefined) continue;
    if (found.certainty === "certain" && !(isNonRevealing && at < names.length - 1)) return { at, ...found };
    likely ??= { at, ...found, certainty: "likely" };
  }
  return likely;
}

function isWrapper(reading: readonly (readonly string[])[]): boolean {
  return reading.every((words) => words.every((word) => WRAPPERS.has(word)));
}

type Indication = Omit<PersonalName, "at">;

function strongest(found: readonly (Indication | undefined)[]): Indication | undefined {
  return found.find((one) => one?.certainty === "certain") ?? found.find((one) => one !== undefined);
}

function assess(words: readonly string[], above: readonly string[]): Indication | undefined {
  if (words.some((word) => HIDDEN.has(word)) || (words.length > 1 && QUESTION_WORDS.has(words[0] ?? "")))
    return undefined;
  const stem = [...words];
  let isNumber = false;
  for (;;) {
    const certainty = certaintyOf(stem, { above, isNumber });
    const last = stem.at(-1) ?? "";
    if (certainty !== undefined) return { certainty, takesNumber: isNumber || WRITTEN_IN_DIGITS.has(last) };
    if (stem.length < 2 || !KIND_WORDS.has(last)) return undefined;
    isNumber ||= NUMBER_WORDS.has(last);
    stem.pop();
  }
}

interface NameContext {
  readonly above: readonly string[];
  readonly isNumber: boolean;
}

function certaintyOf(words: readonly string[], { above, isNumber }: NameContext): Certainty | undefined {
  const whole = [...above, ...words];
  const last = words.at(-1) ?? "";
  const before = whole.at(-2) ?? "";
  if (last === "name" || last === "address") {
    if (PERSONS.has(before) || (last === "address" && isCertainPhrase(whole))) return "certain";
    if (last === "address") return THINGS.has(before) || words.length > 1 ? undefined : "likely";
  }
  if (PARTS.get(above.at(-1) ?? "")?.has(words.join(" "))) return isThing(above.slice(0, -1)) ? undefined : "certain";
  if (CERTAIN_WORDS.has(last)) return lastWordCertainty(last, whole);
  if (isNumber && suffixes(whole).some((suffix) => NUMBERED.has(suffix))) return "certain";
  if (isCertainPhrase(whole)) return isThing(whole.slice(0, -2)) ? undefined : "certain";
  const isMaybe = LIKELY_WORDS.has(last) || suffixes(whole).some((suffix) => LIKELY_PHRASES.has(suffix));
  return isMaybe ? "likely" : undefined;
}

function lastWordCertainty(lastWord: string, whole: readonly string[]): Certainty | undefined {
  const before = whole.slice(0, -1);
  if (lastWord.endsWith("name") && isThing(before)) return undefined;
  const isOrganization = ORGANIZATIONS.has(before.at(-1) ?? "") || before.slice(-2).join(" ") === "service account";
  return isOrganization ? "likely" : "certain";
}

function isCertainPhrase(words: readonly string[]): boolean {
  return suffixes(words).some((suffix) => CERTAIN_PHRASES.has(suffix));
}

function isThing(words: readonly string[]): boolean {
  return THINGS.has(words.at(-1) ?? "");
}

function suffixes(words: readonly string[]): readonly string[] {
  return Array.from({ length: PHRASE_WORDS_MAX }, (_, at) => words.slice(-at - 1).join(" "));
}

/** All words in the tables below are in lower case and singular. */

/** Last words that indicate personal data whatever precedes them: `contactEmail`, `customer_msisdn`. */
const CERTAIN_WORDS: ReadonlySet<string> = listed(
  "email, phone, telephone, cellphone, msisdn, birthday, birthdate, birthplace, dob, ssn, nino, cpf, bsn",
  "aadhaar, passport, iban, cvv, cvc, salary, surname, forename, firstname, lastname, middlename",
  "vorname, nachname, geburtsdatum, telefonnummer, handynummer, pesel, curp, apellido, correo, telefono, prenom",
  "fullname, givenname, familyname, maidenname, gender, religion, ethnicity, nationality",
);

const LIKELY_WORDS: ReadonlySet<string> = listed("mail, mobile, fax, whatsapp, pan, postcode, zipcode, diagnosis");

/** Pairs and triples of last words that indicate personal data. */
const CERTAIN_PHRASES: ReadonlySet<string> = listed(
  "e mail, cell phone, phone number, mobile number, mobile phone, fax number, whatsapp number",
  "date of birth, place of birth, birth date, birth day, birth place, birth name, do b, next of kin",
  "first name, last name, middle name, full name, given name, family name, maiden name, national id, personal id",
  "national insurance, social security, driver license, driving licence, driving license, driver licence",
  "home address, postal address, mailing address, billing address, shipping address, street address",
  "address line, email address, mail address, residential address, delivery address, marital status",
  "credit card, debit card, account holder name, card holder name, policy holder name",
);

const LIKELY_PHRASES: ReadonlySet<string> = listed(
  "legal name, display name, author name, owner name, user name, client name, member name, subscriber name, holder name, tax id",
  "bank account, postal code, post code, zip code, email id, mail id, annual income, net worth",
  "medical record, health insurance",
);

/** Words that indicate personal data when a number word follows them: `tax` alone may be an amount. */
const NUMBERED: ReadonlySet<string> = listed(
  "tax, card, bank account, medical record, pan, mobile, fax, nhs, identity, id card, medicare",
);

/** Persons: their `name` and `address` are personal data. */
const PERSONS: ReadonlySet<string> = listed(
  "customer, patient, employee, cardholder, contact, person, people, applicant, beneficiary",
  "passenger, student, buyer, payer, payee, spouse, kin, guardian, citizen",
);

/** Things, not persons: their names and addresses are not personal data. */
const THINGS: ReadonlySet<string> = listed(
  "repo, repository, branch, file, image, resource, chart, job, class, method, function, package, module",
  "pod, host, bucket, project, workflow, service, server, endpoint, node, container, cluster, deployment",
  "instance, font, machine, device, product, topic, queue, table, ip, ipv, mac, bind, listen, listener",
  "remote, local, peer, socket, memory, network, broker, gateway, proxy, upstream, wallet, contract",
  "artifact, pipeline, task, group, column, field",
);

/** Organizations and roles, whose mailbox or telephone is not a person's own. */
const ORGANIZATIONS: ReadonlySet<string> = listed(
  "support, service, noreply, reply, helpdesk, system, bot, company, business, organization, organisation",
  "org, store, shop, hotline, vendor, supplier, abuse, postmaster, webmaster",
);

/** Words at the end of a name that describe the kind or form of the value. */
const KIND_WORDS: ReadonlySet<string> = listed(
  "number, no, nr, num, value, text, raw, primary, secondary, home, work, private, line, last",
);

const NUMBER_WORDS: ReadonlySet<string> = listed("number, no, nr, num");

/** Words that mark a value as hidden already. */
const HIDDEN: ReadonlySet<string> = listed("masked, hashed, redacted, hidden, anonymized, anonymised");

const QUESTION_WORDS: ReadonlySet<string> = listed("has, is, can, should, was, did, needs, requires, allows");

/** Properties of personal data that do not reveal it: `email.template`, `phone.model`, `billingAddress.country`. */
const NON_REVEALING: ReadonlySet<string> = listed(
  "template, model, verified, enabled, type, kind, status, state, provider, version, id, count, format",
  "domain, subject, at, label, carrier, country, code, city, region, currency, locale, language, source",
  "strategy, priority, timezone, vendor, brand, os, platform, policy, folder",
);

/** Last words of names whose values are written in digits. */
const WRITTEN_IN_DIGITS: ReadonlySet<string> = listed(
  "phone, telephone, cellphone, msisdn, mobile, fax, whatsapp, birthday, birthdate, birth, dob, ssn, nino",
  "cpf, bsn, aadhaar, passport, iban, cvv, cvc, salary, pan, id, security, card, insurance, license",
  "licence, income, worth, account, record, b, day, date, postcode, code, telefonnummer, handynummer",
  "telefono, pesel, geburtsdatum, nhs, identity, medicare",
);

/** Parts of an address or a name that appear as keys below it: `address.street`, `name.first`. */
const PARTS: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ["address", listed("street, line, street line, address line, postcode, postal code, zip, zip code")],
  ["name", listed("first, last, middle, given, family, maiden")],
]);

/** Names that only group others: `customer.profile.name` is the name of a customer. */
const WRAPPERS: ReadonlySet<string> = listed(
  "profile, detail, data, info, information, attribute, personal, record, payload, result, item, value, property, propertie",
);

/** Words into which a run of letters without separators may be split. */
const VOCABULARY: ReadonlySet<string> = new Set(
  [
    ...[CERTAIN_WORDS, LIKELY_WORDS, CERTAIN_PHRASES, LIKELY_PHRASES, NUMBERED, PERSONS, KIND_WORDS].flatMap(
      (words) => [...words],
    ),
    ...listed("address, name, user, client, alternate, alternative, personal, billing, emergency, main"),
  ].flatMap((words) => words.split(" ").filter((word) => word.length > 1)),
);

function listed(...lines: readonly string[]): ReadonlySet<string> {
  return new Set(lines.flatMap((line) => line.split(", ")));
}
