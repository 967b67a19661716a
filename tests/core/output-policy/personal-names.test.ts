import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { personalName } from "../../../src/core/output-policy/personal-names.ts";

const certaintyOf = (path: string) => personalName(path.split("."))?.certainty;

describe("names that are certain", () => {
  test.each([
    ...["email", "emails", "emailAddress", "contact_email", "e-mail", "eMail", "Email2", "EMAIL", "customerEmail"],
    ...[
      "customeremail",
      "CUSTOMEREMAIL",
      "EMAILAddress",
      "emailaddress",
      "user.email",
      "ｅmail",
      "email_2",
      "work.email",
    ],
    ...["phone", "phones", "phoneNumber", "primary_phone_number", "primaryphonenumber", "homePhone", "mobile_no"],
    ...[
      "fullName",
      "first_name",
      "LASTNAME",
      "firstname",
      "name.first",
      "name.family",
      "customerName",
      "customer.name",
    ],
    ...[
      "people.name",
      "accountHolder.name",
      "employees.name",
      "contact.name",
      "nextOfKin.fullName",
      "maidenName",
      "birth-name",
    ],
    ...["dateOfBirth", "birthDate", "dob", "DoB", "DOB", "date_of_birth", "dateofbirth", "customer.dob", "birthday"],
    ...["ssn", "SSNs", "nationalId", "taxNumber", "passportNo", "passport", "cardNumber", "creditCardNumber", "iban"],
    ...["socialSecurityNumber", "driverLicenseNumber", "medicalRecordNumber", "bankAccountNumber", "cpf"],
    ...["maritalStatus", "nhsNumber", "identityNumber", "personalId", "ssnLast4", "vorname", "nachname", "telefono"],
    ...["homeAddress", "home.address", "customer.address", "address.street", "address.line1", "addressLine1"],
    ...["billingAddress", "billingAddress.line1", "shippingAddress.name", "streetAddress", "nextOfKin", "salary"],
    ...["email.work", "email.value", "emails.address", "contact.phone.value", "salary.amount", "dob.day", "gender"],
    ...[
      "usersByEmail",
      "customer.contact.email",
      "customer.profile.contact.details.email",
      "customer.profile.name",
      "customers.items.name",
    ],
  ])("%s", (path) => {
    expect(certaintyOf(path)).toBe("certain");
  });
});

describe("names that are only likely", () => {
  test.each([
    ...["address", "addresses", "mail", "mobile", "fax", "postalCode", "zip-code", "taxId", "annualIncome", "netWorth"],
    ...["supportEmail", "company.phone", "serviceAccountEmail", "noreply_email", "email.template", "email.subject"],
    ...[
      "phone.model",
      "billingAddress.country",
      "displayName",
      "subscribers.name",
      "lease.holder.name",
      "user.name",
      "salary.currency",
      "address.country",
    ],
  ])("%s", (path) => {
    expect(certaintyOf(path)).toBe("likely");
  });
});

describe("names that say nothing about a person", () => {
  test.each([
    ...["name", "podName", "pod.name", "container.image.name", "filename", "fileName", "hostname", "branchName"],
    ...["namespace", "repository.full_name", "repo.fullName", "workflow.name", "fontFamilyName", "serviceName"],
    ...[
      "data.name",
      "pod.details.name",
      "ipAddress",
      "macAddress",
      "endpoint.address",
      "server_address",
      "listenAddress",
      "remoteAddress",
      "host.address",
    ],
    ...["address_family", "walletAddress", "memoryAddress", "contractAddress", "node.addresses", "hostAddress"],
    ...["emailTemplate", "emailSentAt", "emailCount", "emailVerified", "emailDomain", "emailHash", "isEmail"],
    ...["hasPhone", "phoneModel", "phoneType", "microphone", "headphones", "smartphone", "voicemail", "mailbox"],
    ...["maskedEmail", "email_hashed", "redacted_phone", "tax", "card", "birthRate", "mobileFirst", "orderNumber"],
    ...["hotel", "telemetry", "callId", "callback", "contactless", "japan", "span", "expand", "panel", "company"],
    ...["lineNumber", "id", "author", "owner", "labels", "status", "message", "createdAt", "", "x".repeat(10_000)],
  ])("%s", (path) => {
    expect(certaintyOf(path)).toBeUndefined();
  });
});

test("the name that indicates it", () => {
  expect(personalName(["customer", "emails", "work"])).toEqual({ at: 1, certainty: "certain", takesNumber: false });
  expect(personalName(["customer", "phone"])).toEqual({ at: 1, certainty: "certain", takesNumber: true });
});

test("spelling hides nothing", () => {
  const words = fc.constantFrom(
    ...[
      ["customer", "email"],
      ["phone", "number"],
      ["date", "of", "birth"],
      ["first", "name"],
      ["home", "address"],
    ],
  );
  const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1);
  const spelled = fc.tuple(words, fc.nat(8)).map(([list, how]) => {
    const spellings = [
      ...[list.join("_"), list.join("-"), list.join(" "), list.join("."), list.map(capital).join("")],
      ...[list.join("_").toUpperCase(), list.join(""), list.join("").toUpperCase(), `${list.join("__")}2`],
    ];
    return spellings[how] ?? "";
  });
  fc.assert(
    fc.property(fc.array(fc.constantFrom("data", "x1", "rows", "Result"), { maxLength: 3 }), spelled, (above, name) => {
      expect(personalName([...above, name])?.certainty).toBe("certain");
    }),
  );
});

test("any name is read in little time", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 96, unit: "binary" }), { maxLength: 6 }), (names) => {
      personalName(names);
    }),
  );
  // A search that is not linear would not end here.
  for (let count = 0; count < 200; count += 1) {
    personalName(["no".repeat(48), "nameaddress".repeat(8), "email".repeat(19)]);
  }
});

test("a name that every object has is a name like any other", () => {
  expect(personalName(["constructor", "toString", "street"])).toBeUndefined();
});
