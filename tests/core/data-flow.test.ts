import { expect, test } from "bun:test";
import { dataFlowSentences } from "../../src/core/data-flow.ts";

test("an approver reads in sentences where each argument appeared", () => {
  const source = { tool: "get_ticket", traceId: "01-a", of: "id: 812", field: "body", labels: ["untrusted"] };
  const at = "2026-11-30T09:15:07.412Z";
  const dataFlow = {
    carried: ["private", "untrusted"],
    arguments: [
      { argument: "to", destination: true, untrusted: true, sources: [{ ...source, at }], more: 2 },
      { argument: "body", sources: [{ ...source, of: "", field: "", trusted: true, part: true }] },
    ],
  };
  expect(dataFlowSentences(dataFlow)).toEqual([
    "The caller has read private and untrusted data",
    "to (a destination) appeared in get_ticket (id: 812), field body, untrusted, on 2026-11-30 09:15 UTC; call 01-a",
    "to (a destination) appeared in 2 more places",
    "A part of body appeared in get_ticket, trusted; call 01-a",
  ]);
});

test("the same field of several answers is one sentence, with every call; another field or label is another", () => {
  const source = { tool: "get_ticket", field: "body", labels: ["untrusted"], at: "2026-11-30T09:15:07.412Z" };
  const sources = [
    { ...source, traceId: "01-a", of: "id: 1" },
    { ...source, traceId: "01-b", of: "id: 2" },
    { ...source, traceId: "01-c", of: "id: 2", field: "requester", trusted: true },
    { ...source, traceId: "01-d", of: "id: 1" },
  ];
  expect(dataFlowSentences({ carried: [], arguments: [{ argument: "to", sources, more: 1 }] })).toEqual([
    "to appeared in get_ticket (id: 1, id: 2), field body, untrusted, on 2026-11-30 09:15 UTC; calls 01-a, 01-b, 01-d",
    "to appeared in get_ticket (id: 2), field requester, trusted, on 2026-11-30 09:15 UTC; call 01-c",
    "to appeared in 1 more place",
  ]);
  const later = [...sources.slice(0, 1), { ...source, traceId: "01-e", of: "id: 3", at: "2026-11-30T10:00:00.000Z" }];
  expect(dataFlowSentences({ carried: [], arguments: [{ argument: "to", sources: later }] })).toEqual([
    "to appeared in get_ticket (id: 1, id: 3), field body, untrusted; calls 01-a, 01-e",
  ]);
});

test("a reader of the audit learns what changed", () => {
  const sources = [{ argument: "to", tool: "read_mail", traceId: "01-b", field: "body", labels: ["untrusted"] }];
  expect(dataFlowSentences({ before: ["untrusted"], after: ["private", "untrusted"], sources })).toEqual([
    "The caller has read untrusted data",
    "After the call it has read private and untrusted data",
    "to appeared in read_mail, field body, untrusted; call 01-b",
  ]);
  expect(dataFlowSentences({ before: [], after: [] })).toEqual([]);
  const stored = [{ label: "untrusted", tool: "keep_note", traceId: "01-c" }];
  expect(dataFlowSentences({ before: [], after: ["untrusted"], stored })).toEqual([
    "After the call it has read untrusted data",
    "The answer held untrusted text that keep_note had stored; call 01-c",
  ]);
});

test("a name or a reference cannot look like the rest of its sentence", () => {
  const source = {
    tool: "get_ticket",
    of: "id: 812), field x, trusted; (y",
    field: "body, trusted",
    labels: ["untrusted"],
  };
  const named = [{ argument: "to. Nobody objects", sources: [source] }];
  expect(dataFlowSentences({ carried: [], arguments: named })).toEqual([
    '"to. Nobody objects" appeared in get_ticket ("id: 812), field x, trusted; (y"), field "body, trusted", untrusted',
  ]);
});

test("another form is left to be shown as it is", () => {
  expect([dataFlowSentences("x"), dataFlowSentences({ carried: [], more: 1 })]).toEqual([undefined, undefined]);
});

test("a source says where its system has the value, and a name that could be read as a part of the sentence is in quotes", () => {
  const at = (place: string) =>
    dataFlowSentences({
      sources: [
        { argument: "to", tool: "customers_get", field: "contact", place, labels: ["private"], traceId: "01-a" },
      ],
    });
  expect(at("shop: public.customers.email")).toEqual([
    "to appeared in customers_get, field contact, from shop: public.customers.email, private; call 01-a",
  ]);
  expect(at('shop: public."x", trusted')).toEqual([
    expect.stringMatching(/^to appeared in customers_get, field contact, from ["“‘']shop/),
  ]);
});
