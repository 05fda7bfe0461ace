/** Changes that would let unproven messages count, or proven ones not: trust mode `signed`. */
import type { Mutation } from './mutant.ts';

/** A run in which answers are proven does not go on with an answer to something else (docs/adr/0047). */
export const SIGNED_QUESTIONS: readonly Mutation[] = [
  {
    name: 'dispatch is not told what was signed',
    noticedIn: 'agent-run.v2.signed',
    file: 'workflows/dispatch-input.ts',
    find: '...live.signedSpec,',
    put: '',
  },
  {
    name: 'a vote loses its signature',
    noticedIn: 'agent-run.v2.signed-sent',
    file: 'domain/decision.ts',
    find: 'const vote = decision.signature === undefined ? unsigned : decision;',
    put: 'const { signature: _signature, ...vote } = unsigned;',
  },
  {
    name: 'the review of a catalog is not told what was signed',
    noticedIn: 'tool-catalog.v2.signed-continued-first',
    file: 'workflows/catalog-change.ts',
    find: 'if (asked === undefined) return { signed };',
    put: 'if (asked === undefined) return {};',
  },
];

/** As `OTHER_COMMANDS`. */
export const SIGNED_COMMANDS: readonly Mutation[] = [
  {
    name: 'a list of tools by somebody without a key is believed',
    noticedIn: 'agent-run.v3.unproven-listed',
    file: 'workflows/zone.ts',
    find: "    if (counts(input.seq, isProven(zone.arrived(input.seq)?.proven, { ...claims, kind: 'result' }))) return value;",
    put: '    return value;',
  },
  {
    name: 'that a call was not sent is believed of somebody without a key',
    noticedIn: 'agent-run.v3.unproven-sent',
    file: 'workflows/zone.ts',
    find: "    if (counts(input.seq, isProven(zone.arrived(input.seq)?.proven, { ...claims, kind: 'result' }))) return value;",
    put: "    const isOurs = isProven(zone.arrived(input.seq)?.proven, { ...claims, kind: 'result' });\n    if (input.activityType === ACTIVITIES.callTool || counts(input.seq, isOurs)) return value;",
  },
  {
    name: 'what was not proven is not scheduled again',
    noticedIn: 'agent-run.v3.unproven-listed',
    file: 'workflows/zone-activities.ts',
    find: '  [ACTIVITIES.discoverTools]: 10,\n',
    put: '',
  },
];

/** As `OTHER_CONTENT`. */
export const SIGNED_CONTENT: readonly Mutation[] = [
  {
    name: 'a catalog forgets its keys when it continues as new',
    noticedIn: 'tool-catalog.v2.signed-continued-first',
    file: 'workflows/live-catalog.ts',
    find: 'if (this.#signing !== undefined) {',
    put: 'if (this.#signing !== undefined && journal.ledgerLength < 0) {',
  },
];

/** As `OTHER_REFUSALS`. */
export const SIGNED_REFUSALS: readonly Mutation[] = [
  {
    name: 'a decision is believed without its signature',
    noticedIn: 'agent-run.v2.signed',
    file: 'workflows/trust.ts',
    find: "  const checked = checkSignedAnswer(purpose, answer, live.ids, trust, Date.now());\n  if (checked.kind === 'refuse') throw refusal(checked);",
    put: '  checkSignedAnswer(purpose, answer, live.ids, trust, Date.now());',
  },
  {
    name: 'a message is believed without its signature',
    noticedIn: 'agent-run.v2.signed',
    file: 'workflows/trust.ts',
    find: "  if (checked.kind === 'refuse') throw refusal(checked);\n  // Whoever may decide",
    put: "  if (checked.kind === 'refuse') return;\n  // Whoever may decide",
  },
  {
    name: 'one key makes a quorum',
    noticedIn: 'agent-run.v2.signed',
    file: 'domain/signed-decision.ts',
    find: 'if (!isSameVoice(trust, earlier, signature)) return admission;',
    put: 'isSameVoice(trust, earlier, signature);\n  if (callId !== "") return admission;',
  },
  {
    name: 'what was signed for another message counts',
    noticedIn: 'agent-run.v2.signed',
    file: 'domain/signed-message.ts',
    find: '(name) => claims[name] !== about[name],',
    put: "(name) => name !== 'payload' && claims[name] !== about[name],",
  },
  {
    name: 'a signature for one purpose is good for all',
    noticedIn: 'tool-catalog.v2.signed-continued',
    file: 'domain/signed-message.ts',
    find: '(name) => claims[name] !== about[name],',
    put: "(name) => name !== 'purpose' && name !== 'payload' && claims[name] !== about[name],",
  },
  {
    name: 'a change of a catalog is believed without its signature',
    noticedIn: 'tool-catalog.v2.signed-continued',
    file: 'workflows/catalog-trust.ts',
    find: "if (checked.kind === 'refuse') throw refusal(live, checked);",
    put: "if (checked.kind === 'refuse' && live.isClosed) throw refusal(live, checked);",
  },
  {
    name: 'one key is two administrators',
    noticedIn: 'tool-catalog.v2.signed-continued',
    file: 'domain/signed-change.ts',
    find: 'if (!isSameVoice(trust, [asked.signature], signature)) return undefined;',
    put: 'if (!isSameVoice(trust, [asked.signature], signature) || changeId !== "") return undefined;',
  },
];
