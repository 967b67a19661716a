/** Tables of words, all in lower case and the singular. `personal-names.ts` says how they are read. */

/** What a field that is called so holds, whatever stands before it: `contactEmail`, `customer_msisdn`. */
export const HEADS: ReadonlySet<string> = listed(
  "email, phone, telephone, cellphone, msisdn, birthday, birthdate, birthplace, dob, ssn, nino, cpf, bsn",
  "aadhaar, passport, iban, cvv, cvc, salary, surname, forename, firstname, lastname, middlename",
  "vorname, nachname, geburtsdatum, telefonnummer, handynummer, pesel, curp, apellido, correo, telefono, prenom",
  "fullname, givenname, familyname, maidenname, gender, religion, ethnicity, nationality",
);

export const MAYBE_HEADS: ReadonlySet<string> = listed(
  "mail, mobile, fax, whatsapp, pan, postcode, zipcode, diagnosis",
);

/** Heads of two words and more. */
export const COMPOUNDS: ReadonlySet<string> = listed(
  "e mail, cell phone, phone number, mobile number, mobile phone, fax number, whatsapp number",
  "date of birth, place of birth, birth date, birth day, birth place, birth name, do b, next of kin",
  "first name, last name, middle name, full name, given name, family name, maiden name, national id, personal id",
  "national insurance, social security, driver license, driving licence, driving license, driver licence",
  "home address, postal address, mailing address, billing address, shipping address, street address",
  "address line, email address, mail address, residential address, delivery address, marital status",
  "credit card, debit card, account holder name, card holder name, policy holder name",
);

export const MAYBE_COMPOUNDS: ReadonlySet<string> = listed(
  "legal name, display name, author name, owner name, user name, client name, member name, subscriber name, holder name, tax id",
  "bank account, postal code, post code, zip code, email id, mail id, annual income, net worth",
  "medical record, health insurance",
);

/** Certain when they are said to be numbers: a `tax` may be an amount. */
export const NUMBERED: ReadonlySet<string> = listed(
  "tax, card, bank account, medical record, pan, mobile, fax, nhs, identity, id card, medicare",
);

/** Whose `name` and `address` are a person's. */
export const PERSONS: ReadonlySet<string> = listed(
  "customer, patient, employee, cardholder, contact, person, people, applicant, beneficiary",
  "passenger, student, buyer, payer, payee, spouse, kin, guardian, citizen",
);

/** Things, not persons: what is named or addressed so is theirs. */
export const THINGS: ReadonlySet<string> = listed(
  "repo, repository, branch, file, image, resource, chart, job, class, method, function, package, module",
  "pod, host, bucket, project, workflow, service, server, endpoint, node, container, cluster, deployment",
  "instance, font, machine, device, product, topic, queue, table, ip, ipv, mac, bind, listen, listener",
  "remote, local, peer, socket, memory, network, broker, gateway, proxy, upstream, wallet, contract",
  "artifact, pipeline, task, group, column, field",
);

/** Whose mailbox or telephone is nobody's own. */
export const OFFICES: ReadonlySet<string> = listed(
  "support, service, noreply, reply, helpdesk, system, bot, company, business, organization, organisation",
  "org, store, shop, hotline, vendor, supplier, abuse, postmaster, webmaster",
);

/** Ends of a name that say of which kind or in what form. */
export const TRAILERS: ReadonlySet<string> = listed(
  "number, no, nr, num, value, text, raw, primary, secondary, home, work, private, line, last",
);

export const NUMBER_WORDS: ReadonlySet<string> = listed("number, no, nr, num");

/** Words that say that it is hidden already, and words in front that make it a question. */
export const HIDDEN: ReadonlySet<string> = listed("masked, hashed, redacted, hidden, anonymized, anonymised");

export const ASKING: ReadonlySet<string> = listed("has, is, can, should, was, did, needs, requires, allows");

/** What is told of such a thing without telling the thing: `email.template`, `phone.model`, `billingAddress.country`. */
export const ASIDES: ReadonlySet<string> = listed(
  "template, model, verified, enabled, type, kind, status, state, provider, version, id, count, format",
  "domain, subject, at, label, carrier, country, code, city, region, currency, locale, language, source",
  "strategy, priority, timezone, vendor, brand, os, platform, policy, folder",
);

/** Heads that are written in figures. */
export const IN_FIGURES: ReadonlySet<string> = listed(
  "phone, telephone, cellphone, msisdn, mobile, fax, whatsapp, birthday, birthdate, birth, dob, ssn, nino",
  "cpf, bsn, aadhaar, passport, iban, cvv, cvc, salary, pan, id, security, card, insurance, license",
  "licence, income, worth, account, record, b, day, date, postcode, code, telefonnummer, handynummer",
  "telefono, pesel, geburtsdatum, nhs, identity, medicare",
);

/** Parts of an address or a name that stand below it: `address.street`, `name.first`. */
export const PARTS: Readonly<Record<string, ReadonlySet<string>>> = {
  address: listed("street, line, street line, address line, postcode, postal code, zip, zip code"),
  name: listed("first, last, middle, given, family, maiden"),
};

/** Names that only hold others together: `customer.profile.name` is a customer's. */
export const WRAPPERS: ReadonlySet<string> = listed(
  "profile, detail, data, info, information, attribute, personal, record, payload, result, item, value, property, propertie",
);

/** A run of letters without separators is read when it is made of these. */
export const VOCABULARY: ReadonlySet<string> = new Set(
  [
    ...[HEADS, MAYBE_HEADS, COMPOUNDS, MAYBE_COMPOUNDS, NUMBERED, PERSONS, TRAILERS].flatMap((words) => [...words]),
    ...listed("address, name, user, client, alternate, alternative, personal, billing, emergency, main"),
  ].flatMap((words) => words.split(" ").filter((word) => word.length > 1)),
);

function listed(...lines: readonly string[]): ReadonlySet<string> {
  return new Set(lines.flatMap((line) => line.split(", ")));
}
