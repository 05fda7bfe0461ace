/**
 * These shapes check the answers of activities, as far as the workflow reads their fields (docs/adr/0046).
 *
 * An answer that does not fit counts as lost; else the workflow task would fail for ever. The file is pure. The meaning
 * of the fields, and the proof that a worker of the zone wrote them (docs/adr/0047), belong to others.
 *
 * 1. Further fields are allowed: other releases answer with more.
 */
import { isFields } from './messages.ts';

/** A field whose name ends with `?` may be missing. */
type Shape = 'text' | 'count' | 'fields' | Word | Each | Either | { readonly [name: string]: Shape };
class Word {
  readonly word: string;
  constructor(word: string) {
    this.word = word;
  }
}
class Each {
  readonly shape: Shape;
  constructor(shape: Shape) {
    this.shape = shape;
  }
}
class Either {
  readonly shapes: readonly Shape[];
  constructor(...shapes: readonly Shape[]) {
    this.shapes = shapes;
  }
}

const REF: Shape = { sha256: 'text', bytes: 'count', contentType: 'text' };
const TRUST: Shape = { keys: new Each('fields'), maxAgeSeconds: 'count' };
const WHY = { code: 'text', message: 'text' } as const;
const VERDICT = new Either(
  { kind: new Word('allow') },
  { kind: new Word('ask'), approvers: { allOf: new Each('fields') }, deadlineSeconds: 'count' },
  { kind: new Word('deny'), ...WHY },
);
const JUDGED: Shape = { policyVersion: 'text', judgements: new Each({ callId: 'text', verdict: VERDICT }) };
const ENDED: Shape = {
  kind: new Word('ended'),
  outcome: { kind: 'text', 'result?': { content: new Each('fields') } },
};
const DISPATCHED = new Either(
  ENDED,
  { kind: new Word('not-sent'), ...WHY },
  { kind: new Word('refused'), ...WHY },
  { kind: new Word('reopen'), ...WHY },
  { kind: new Word('task'), task: 'fields' },
  { kind: new Word('input'), requests: 'fields' },
);

const ANSWERS = {
  prepareRun: {
    specHash: 'text',
    policyVersion: 'text',
    limits: 'fields',
    initiator: { id: 'text' },
    servers: new Each({ name: 'text', url: 'text' }),
    opening: new Each({ role: 'text' }),
    'trust?': TRUST,
  },
  'readTrust?': TRUST,
  judge: JUDGED,
  storeSegment: REF,
  modelStep: {
    parts: new Each(
      new Either(
        { type: new Word('call'), callId: 'text', providerCallId: 'text', name: 'text', arguments: 'fields' },
        { type: new Either(new Word('text'), new Word('reasoning')), text: 'text' },
      ),
    ),
    usage: { inputTokens: 'count', outputTokens: 'count' },
    finish: 'text',
    'judged?': JUDGED,
    'malformed?': 'fields',
  },
  discoverTools: new Either(
    { server: 'text', tools: REF, refused: new Each('fields') },
    { server: 'text', authorization: 'fields' },
  ),
  callTool: DISPATCHED,
  resumeCall: DISPATCHED,
  pollTask: new Either(ENDED, { kind: new Word('working') }, { kind: new Word('unreached'), message: 'text' }),
  discoverCatalog: {
    listing: REF,
    tools: new Each({ name: 'text', hash: 'text' }),
    refused: new Each('fields'),
  },
  reviewChange: {
    rules: { administrators: new Each('fields'), newTools: 'text', loosening: 'text' },
    objections: new Each({ path: 'text', reason: 'text' }),
    'trust?': new Either(TRUST, new Word('unchanged')),
    'unproven?': WHY,
  },
} satisfies Readonly<Record<string, Shape>>;

/** Name of the activity; a final `?` marks one that may answer nothing. */
export type Answerer = keyof typeof ANSWERS;

export function isAnswerOf(activity: Answerer, value: unknown): boolean {
  return fits({ [activity.replace('?', '')]: value }, { [activity]: ANSWERS[activity] });
}

function fits(value: unknown, shape: Shape): boolean {
  if (shape === 'text') return typeof value === 'string';
  if (shape === 'count') return Number.isSafeInteger(value) && Number(value) >= 0;
  if (shape instanceof Word) return value === shape.word;
  if (shape instanceof Each) return Array.isArray(value) && value.every((item) => fits(item, shape.shape));
  if (shape instanceof Either) return shape.shapes.some((one) => fits(value, one));
  if (!isFields(value)) return false;
  if (shape === 'fields') return true;
  return Object.entries(shape).every(([name, inner]) => {
    const field = value[name.replace('?', '')];
    return (name.endsWith('?') && (field === undefined || field === null)) || fits(field, inner);
  });
}
