/** Customer statuses of the contract, without the unspecified one. */
export type CustomerStatus = "ACTIVE" | "PENDING" | "DORMANT" | "BLOCKED" | "OFFBOARDED";

type CompleteRecord = ReturnType<typeof recordOf>;

/** A customer in the wire format. Fields that are not set are missing. */
export type CustomerRecord = Partial<CompleteRecord> &
  Pick<CompleteRecord, "customerId" | "status" | "fullName" | "email">;

type Row = readonly [fullName: string, status: CustomerStatus, city: string, country: string, employer: string];

const ROWS: readonly Row[] = [
  ["John Smith", "ACTIVE", "Leeds", "GB", "Northern Rail Works"],
  ["Amara Okafor", "ACTIVE", "Lagos", "NG", "Harbour Logistics"],
  ["Lena Vogel", "PENDING", "Hamburg", "DE", "Vogel Druck"],
  ["Miguel Ángel Torres", "DORMANT", "Sevilla", "ES", "Olivares del Sur"],
  ["Priya Raghunathan", "BLOCKED", "Chennai", "IN", "Coromandel Textiles"],
  ["Søren Østergård", "OFFBOARDED", "Aarhus", "DK", "Østjysk Energi"],
  ["Chloé Dubois", "ACTIVE", "Lyon", "FR", "Atelier Dubois"],
  ["Jonathan Smithson", "ACTIVE", "York", "GB", "Minster Books"],
  ["王小明", "ACTIVE", "Taipei", "TW", "Formosa Instruments"],
  ["Fatima Zahra El Idrissi", "ACTIVE", "Rabat", "MA", "Atlas Solar"],
  ["Giulia Bianchi", "PENDING", "Torino", "IT", "Officine Bianchi"],
  ["Noah van der Berg", "ACTIVE", "Utrecht", "NL", "Fietsfabriek"],
  ["Katarzyna Wójcik", "DORMANT", "Gdańsk", "PL", "Stocznia Nowa"],
  ["Liam O'Connor", "ACTIVE", "Cork", "IE", "Lee Valley Dairy"],
  ["Yuki Tanaka", "ACTIVE", "Osaka", "JP", "Kansai Optics"],
  ["Thandiwe Nkosi", "ACTIVE", "Durban", "ZA", "Umgeni Water"],
  ["Ana Clara Ribeiro", "BLOCKED", "Recife", "BR", "Porto Novo"],
  ["Oleksandr Kovalenko", "ACTIVE", "Lviv", "UA", "Karpaty Soft"],
  ["Elif Yılmaz", "PENDING", "İzmir", "TR", "Ege Seramik"],
  ["Grace Thompson", "ACTIVE", "Halifax", "CA", "Maritime Fisheries"],
];

const ID_PREFIX = "3f0c9a52-6b1e-4c77-9d3a-";
const FIRST_CREATED_SECONDS = 1_704_067_200;
const DAY_SECONDS = 86_400;

/** Returns the id of a customer by its number, which starts at 1. Ids are the same in every run. */
export function customerIdOf(number: number): string {
  return `${ID_PREFIX}${number.toString(16).padStart(12, "0")}`;
}

/**
 * Customer ids for examples and tests. Lists do not contain the ids from `unavailable` on; a request for one makes the service
 * misbehave.
 */
export const KNOWN_CUSTOMERS = {
  johnSmith: customerIdOf(1),
  pending: customerIdOf(3),
  dormant: customerIdOf(4),
  blocked: customerIdOf(5),
  offboarded: customerIdOf(6),
  missing: customerIdOf(0xdead),
  unavailable: customerIdOf(0xbad1),
  /** Never answers; the call ends when it is cancelled. */
  hangs: customerIdOf(0xbad2),
  /** Answers FAILED_PRECONDITION with a text that contains personal data. */
  leaksAsPrecondition: customerIdOf(0xbad3),
  /** Answers INTERNAL with the same text. */
  leaksAsInternal: customerIdOf(0xbad4),
  /** Answers with a customer that has no id and an unspecified status. */
  breaksContract: customerIdOf(0xbad5),
} as const;

export const JOHN_SMITH_LEGACY_ID = "LEG-000001";

function addressOf([, , city, country]: Row, number: number) {
  return {
    line1: `${number * 7} Station Road`,
    line2: "",
    city,
    region: "",
    postalCode: `${10_000 + number * 137}`,
    country,
  };
}

function asciiSlug(name: string, number: number): string {
  const ascii = name
    .normalize("NFKD")
    .replace(/[^A-Za-z ]/g, "")
    .trim()
    .toLowerCase()
    .replace(/ +/g, ".");
  return ascii === "" ? `customer${number}` : ascii;
}

function recordOf(row: Row, index: number) {
  const number = index + 1;
  const [fullName, status, , country, employerName] = row;
  const digits = String(number).padStart(6, "0");
  const created = { seconds: String(FIRST_CREATED_SECONDS + index * DAY_SECONDS), nanos: 0 };
  return {
    customerId: customerIdOf(number),
    legacyId: `LEG-${digits}`,
    status,
    fullName,
    email: `${asciiSlug(fullName, number)}@example.com`,
    phone: `+4477009${String(number).padStart(5, "0")}`,
    nationalId: `QQ${digits}C`,
    taxNumber: `${country}-${digits}-7`,
    dateOfBirth: `${1955 + number * 2}-0${1 + (number % 9)}-1${number % 10}`,
    address: addressOf(row, number),
    annualIncome: { currency: "EUR", minorUnits: String(3_500_000 + number * 215_000) },
    netWorth: { currency: "EUR", minorUnits: String(12_000_000 + number * 1_730_000) },
    employerName,
    employerAddress: addressOf(row, number + 50),
    nextOfKin: { fullName: `Kin of ${fullName}`, relationship: "sibling", phone: `+4477008${digits.slice(1)}` },
    accountIds: [`ACC-${digits}-1`, `ACC-${digits}-2`],
    externalReferences: [{ system: "crm", reference: `CRM-${digits}` }],
    createdAt: created,
    updatedAt: created,
  };
}

/** Returns the customers of a new development environment, oldest first, beginning with John Smith. */
export function initialCustomers(): readonly CustomerRecord[] {
  return ROWS.map(recordOf);
}
