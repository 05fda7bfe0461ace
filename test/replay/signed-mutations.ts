/** Changes that would let unproven messages count, or proven ones not: trust mode `signed`. */
import type { Mutation } from './mutant.ts';

/** A run in which answers are proven does not go on with an answer to something else (docs/adr/0047). */
export const SIGNED_QUESTIONS: readonly Mutation[] = [
  {
    name: 'dispatch is not told what was signed',
    noticedIn: 'agent-run.v2.signed',
    file: 'workflows/run/dispatch-input.ts',
    find: '...live.signedSpec,',
    put: '',
  },
  {
    name: 'a vote loses its signature',
    noticedIn: 'agent-run.v2.signed-sent',
    file: 'domain/request/decision.ts',
    find: 'const vote = decision.signature === undefined ? unsigned : decision;',
    put: 'const { signature: _signature, ...vote } = unsigned;',
  },
  {
    name: 'the review of a catalog is not told what was signed',
    noticedIn: 'tool-catalog.v2.signed-continued-first',
    file: 'workflows/catalog/changes.ts',
    find: 'if (asked === undefined) return { signed };',
    put: 'if (asked === undefined) return {};',
  },
];

/** As `OTHER_CONTENT`. */
export const SIGNED_CONTENT: readonly Mutation[] = [
  {
    name: 'a catalog forgets its keys when it continues as new',
    noticedIn: 'tool-catalog.v2.signed-continued-first',
    file: 'workflows/catalog/live-catalog.ts',
    find: 'if (this.#signing !== undefined) {',
    put: 'if (this.#signing !== undefined && journal.ledgerLength < 0) {',
  },
];

/** As `OTHER_REFUSALS`. */
export const SIGNED_REFUSALS: readonly Mutation[] = [
  {
    name: 'a decision is believed without its signature',
    noticedIn: 'agent-run.v2.signed',
    file: 'workflows/run/trust.ts',
    find: "  const checked = checkSignedAnswer(purpose, answer, live.ids, trust, Date.now());\n  if (checked.kind === 'refuse') throw refusal(checked);",
    put: '  checkSignedAnswer(purpose, answer, live.ids, trust, Date.now());',
  },
  {
    name: 'a message is believed without its signature',
    noticedIn: 'agent-run.v2.signed',
    file: 'workflows/run/trust.ts',
    find: "  if (checked.kind === 'refuse') throw refusal(checked);\n  // Whoever may decide",
    put: "  if (checked.kind === 'refuse') return;\n  // Whoever may decide",
  },
  {
    name: 'one key makes a quorum',
    noticedIn: 'agent-run.v2.signed',
    file: 'domain/request/signed-answer.ts',
    find: 'if (!isSameVoice(trust, earlier, signature)) return admission;',
    put: 'isSameVoice(trust, earlier, signature);\n  if (callId !== "") return admission;',
  },
  {
    name: 'what was signed for another message counts',
    noticedIn: 'agent-run.v2.signed',
    file: 'domain/signing/message.ts',
    find: '(name) => claims[name] !== about[name],',
    put: "(name) => name !== 'payload' && claims[name] !== about[name],",
  },
  {
    name: 'a signature for one purpose is good for all',
    noticedIn: 'tool-catalog.v2.signed-continued',
    file: 'domain/signing/message.ts',
    find: '(name) => claims[name] !== about[name],',
    put: "(name) => name !== 'purpose' && name !== 'payload' && claims[name] !== about[name],",
  },
  {
    name: 'a change of a catalog is believed without its signature',
    noticedIn: 'tool-catalog.v2.signed-continued',
    file: 'workflows/catalog/trust.ts',
    find: "if (checked.kind === 'refuse') throw refusal(live, checked);",
    put: "if (checked.kind === 'refuse' && live.isClosed) throw refusal(live, checked);",
  },
  {
    name: 'one key is two administrators',
    noticedIn: 'tool-catalog.v2.signed-continued',
    file: 'domain/catalog/signed-change.ts',
    find: 'if (!isSameVoice(trust, [asked.signature], signature)) return undefined;',
    put: 'if (!isSameVoice(trust, [asked.signature], signature) || changeId !== "") return undefined;',
  },
];
