/** The shapes of what may be sent to a catalog are those of the schemas (S2.3: extra fields rejected). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  CatalogConnect,
  CatalogDecision,
  CatalogDisconnect,
  CatalogRefresh,
  MOST_TOOL_CHANGES,
  SetToolPolicies,
} from '../../../../contracts/schemas/catalog.ts';
import {
  parseCatalogDecision,
  parseConnect,
  parseDisconnect,
  parsePolicies,
  parseRefresh,
} from '../../../../domain/shapes/catalog.ts';
import { identifier as identifierCheck, listOf, optional, type Parsed } from '../../../../domain/shapes/fields.ts';
import { hasSecretParameter } from '../../../../domain/text/urls.ts';
import { approverList, hex64, jsonValue } from '../../../support/builders/arbitraries.ts';
import { ODD_NAMES, ruleChange } from '../../../support/builders/catalog-arbitraries.ts';
import { catalogDecision, definition } from '../../../support/builders/catalog.ts';
import { describeShape, type Shape } from '../../../support/shape-suite.ts';

const sane = { noNullPrototype: true };
const identifier = fc.stringMatching(/^[\x21-\x7e]{1,200}$/);
const name = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/);
const message = {
  requestId: identifier,
  by: fc.record({ id: identifier, groups: fc.array(identifier, { maxLength: 3 }) }, { requiredKeys: ['id'], ...sane }),
};
const expectedVersion = fc.integer({ min: 0 });
const url = fc.constantFrom(
  'https://files.example/mcp',
  'http://127.0.0.1:8080',
  'https://[::1]:8443/',
  'HTTPS://Files.example?team=7',
  'https://bücher.example/mcp',
);
const change = fc
  .tuple(ruleChange, fc.option(hex64, { nil: undefined }))
  .map(([rule, acknowledge]) => (acknowledge === undefined ? rule : { ...rule, acknowledge }));

const connect = fc.record(
  { ...message, url, credentials: name, trusted: fc.boolean(), taskQueue: name, expectedVersion },
  { requiredKeys: ['requestId', 'by', 'url'], ...sane },
);
const refresh = fc.record(message, sane);
const policies = fc.record(
  { ...message, expectedVersion, changes: fc.array(change, { minLength: 1, maxLength: 3 }) },
  sane,
);
const disconnect = fc.record({ ...message, expectedVersion }, sane);
const decision = fc.record(
  { ...message, changeId: identifier, digest: hex64, verdict: fc.constantFrom('approve', 'reject') },
  sane,
);

/** Values that are nearly right: the edges of each check, and what other languages send in place of nothing. */
const nearMiss = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    null,
    '',
    ' ',
    'a b',
    'é',
    'x\n',
    'approve',
    'a'.repeat(64),
    'A'.repeat(64),
    [],
    {},
  ),
  fc.constantFrom<unknown>(
    0,
    -1,
    1,
    1.5,
    -0,
    2 ** 53,
    2 ** 53 - 1,
    31_536_000,
    31_536_001,
    Number.NaN,
    true,
    false,
    '1',
  ),
  fc.constantFrom<unknown>(
    'ftp://files.example',
    'https:files.example',
    'https://',
    'https:///mcp',
    'https://u@files.example',
    'https://u:p@files.example',
    'https://files.example/#x',
    'https://files.example/a b',
    ' https://files.example',
    'https://files.example\n',
    'https://good.example\\.evil.example',
    'https://good.example%2eevil.example',
    'https://files.example:port',
    'https://files.example:',
    'https://[::1',
    'https://a<b',
    'https://files.example/\\x',
    'https://files\u202e.example',
    'https://files.example/\u0000',
    'https://files.example/?team=7',
    'https://files.example/u@v',
    'https://files.example?token=canary',
    `https://files.example/${'x'.repeat(2_048)}`,
  ),
  fc.constantFrom(64, 65, 128, 129, 200, 201).map((length): unknown => 'x'.repeat(length)),
  fc.constantFrom(100, 101, 1_000, 1_001).map((length): unknown => Array.from({ length }, () => 'ops')),
  fc.constantFrom(1_000, 1_001).map((length): unknown => Array.from({ length }, () => ({ tool: 'x' }))),
  fc.constantFrom<unknown>(
    { ids: ['ann'] },
    { ids: ['a b'] },
    { ids: 'ann' },
    { ids: ['ann'], extra: 1 },
    { groups: null },
  ),
  approverList,
  jsonValue,
);
const fieldName = fc.constantFrom(
  ...'requestId by url credentials trusted taskQueue expectedVersion changes changeId digest verdict'.split(' '),
  ...'constructor toString type approved extra'.split(' '),
);
const changeField = fc.constantFrom(
  ...'tool enabled requiresApproval denied approvers deadlineSeconds acknowledge setting'.split(' '),
);

/** One field changed, added or taken away; sometimes inside `by` or the first change. */
function mutated(valid: fc.Arbitrary<object>): fc.Arbitrary<unknown> {
  return fc
    .tuple(valid, fieldName, changeField, nearMiss, fc.constantFrom('put', 'drop', 'put into by', 'put into a change'))
    .map(([value, key, inner, odd, how]) => {
      const fields: Record<string, unknown> = { ...value };
      if (how === 'put') return { ...fields, [key]: odd };
      if (how === 'drop') {
        const { [key]: _dropped, ...rest } = fields;
        return rest;
      }
      if (how === 'put into by') return { ...fields, by: { ...Object(fields['by']), groups: odd } };
      const changes: unknown = fields['changes'];
      if (!Array.isArray(changes)) return { ...fields, by: { ...Object(fields['by']), id: odd } };
      const [first, ...rest]: unknown[] = changes;
      return { ...fields, changes: [{ ...Object(first), [inner]: odd }, ...rest] };
    });
}

/** What the sandbox refuses beyond the schema: a secret in a URL. */
function holdsSecret(value: unknown): boolean {
  const { url: given } = Object(value) as { url?: unknown };
  return typeof given === 'string' && hasSecretParameter(given);
}

const SHAPES: readonly Pick<Shape, 'name' | 'parse' | 'schema' | 'valid'>[] = [
  { name: 'connect', parse: parseConnect, schema: CatalogConnect, valid: connect },
  { name: 'refresh', parse: parseRefresh, schema: CatalogRefresh, valid: refresh },
  { name: 'setToolPolicies', parse: parsePolicies, schema: SetToolPolicies, valid: policies },
  { name: 'disconnect', parse: parseDisconnect, schema: CatalogDisconnect, valid: disconnect },
  { name: 'decide', parse: parseCatalogDecision, schema: CatalogDecision, valid: decision },
];
for (const shape of SHAPES) describeShape({ ...shape, nearly: mutated(shape.valid), refusedBesides: holdsSecret });

const bad = (parsed: Parsed<unknown>): string => (parsed.kind === 'bad' ? `${parsed.path}: ${parsed.reason}` : 'ok');
const by = { id: 'ann', groups: [] };

describe('what is taken', () => {
  test('is the message itself, with groups and lists filled in, and a server that is not trusted', () => {
    expect(parseConnect({ requestId: 'r', by: { id: 'ann' }, url: 'https://a.example' })).toEqual({
      kind: 'ok',
      value: { requestId: 'r', by, url: 'https://a.example', trusted: false },
    });
    const changes = [
      { tool: 'a', approvers: { ids: ['bob'] } },
      { tool: 'b', approvers: { groups: ['ops'] } },
    ];
    expect(parsePolicies({ requestId: 'r', by, expectedVersion: 0, changes })).toMatchObject({
      kind: 'ok',
      value: {
        changes: [
          { tool: 'a', approvers: { ids: ['bob'], groups: [] } },
          { tool: 'b', approvers: { ids: [], groups: ['ops'] } },
        ],
      },
    });
  });

  test('as many changes as the contract says, and no more', () => {
    expect(MOST_TOOL_CHANGES).toBe(1_000);
    const batch = (length: number) =>
      parsePolicies({ requestId: 'r', by, expectedVersion: 0, changes: Array.from({ length }, () => ({ tool: 'a' })) });
    expect(bad(batch(1_000))).toBe('ok');
    expect(bad(batch(1_001))).toBe('changes: must be a list of 1 to 1000 changes');
  });

  test.each(ODD_NAMES)('S3.5: a tool named %s, as it is', (tool) => {
    const value: unknown = JSON.parse(JSON.stringify({ requestId: 'r', by, expectedVersion: 0, changes: [{ tool }] }));
    expect(parsePolicies(value)).toEqual({ kind: 'ok', value });
  });
});

describe('what is refused', () => {
  test('S3.9: nothing, a list and a text are no messages', () => {
    for (const parse of [parseConnect, parseRefresh, parsePolicies, parseDisconnect, parseCatalogDecision])
      for (const value of [undefined, null, [], 'approve', 7]) expect(bad(parse(value))).toBe(': must be an object');
  });

  test('INV-S1: a secret in the URL of a server is refused, and not shown', () => {
    const reason = bad(parseConnect({ requestId: 'r', by, url: 'https://a.example/?api_key=canary' }));
    expect(reason).toContain('url: must hold no secret; name credentials of the configuration instead');
    expect(reason).not.toContain('canary');
  });

  test.each<[string, unknown, string]>([
    ['a change that is none', 7, 'changes[0]: must be an object'],
    ['an unknown field', { tool: 'a', hidden: true }, 'changes[0].hidden: is no field of this message'],
    ['a tool without a name', { tool: '' }, 'changes[0].tool: must be text of 1 to 128 characters'],
    ['a flag', { tool: 'a', enabled: 'yes' }, 'changes[0].enabled: must be true or false'],
    ['approvers', { tool: 'a', approvers: ['ann'] }, 'changes[0].approvers: must be an object'],
    [
      'approvers',
      { tool: 'a', approvers: { ids: ['ann'], notInitiator: false } },
      'changes[0].approvers: notInitiator must be true, or left out',
    ],
    [
      'approvers',
      { tool: 'a', approvers: { ids: ['ann'], need: 1 } },
      'changes[0].approvers: need must be a whole number from 2 to 20',
    ],
    [
      'an approver',
      { tool: 'a', approvers: { ids: ['a b'] } },
      'changes[0].approvers: ids must be a list of at most 100, each of which must be 1 to 200 printable ASCII characters without spaces',
    ],
    [
      'a deadline',
      { tool: 'a', deadlineSeconds: 0 },
      'changes[0].deadlineSeconds: must be a whole number from 1 to 31536000',
    ],
  ])('%s is named with where it stands and what it must be', (_what, change_, reason) => {
    expect(bad(parsePolicies({ requestId: 'r', by, expectedVersion: 0, changes: [change_] }))).toBe(reason);
  });

  test('a connection that is not one is named by its field', () => {
    const connecting = { requestId: 'r', by, url: 'https://a.example' };
    expect(bad(parseConnect({ ...connecting, url: 'a.example' }))).toContain('url: must be an http or https URL');
    expect(bad(parseConnect({ ...connecting, credentials: '-a' }))).toContain('credentials: must be 1 to 64 of');
    expect(bad(parseConnect({ ...connecting, headers: {} }))).toBe('headers: is no field of this message');
    expect(bad(parseCatalogDecision({ ...catalogDecision(), digest: definition('x').toUpperCase() }))).toContain(
      'digest: must be 64 lower-case hexadecimal characters',
    );
  });

  test('a list of what may be absent says what each must be as far as there is something to say', () => {
    expect(listOf(optional(identifierCheck), 1)('no list')).toBe('must be a list of at most 1, each of which ');
  });
});
