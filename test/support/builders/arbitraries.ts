/** Random values of the contracts' building blocks, for property tests. */
import fc from 'fast-check';
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import type { ApproverList, Policy } from '../../../contracts/schemas/policy.ts';

/**
 * Any code point. fast-check's unit `binary` is not used: its table of all of Unicode costs each test file half a
 * second.
 */
const unicode = fc
  .oneof(
    { weight: 4, arbitrary: fc.integer({ min: 0x20, max: 0x7e }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 0xd7ff }) },
    { weight: 1, arbitrary: fc.integer({ min: 0xe000, max: 0x10ffff }) },
  )
  .map((codePoint) => String.fromCodePoint(codePoint));
/** Any text in which each surrogate pair is whole. */
export const unicodeText = (maxLength?: number): fc.Arbitrary<string> =>
  fc.string({ unit: unicode, maxLength: maxLength ?? 10 });

/** Any text that JSON can carry, including control characters and lone surrogates. */
const unit = fc.oneof({ weight: 8, arbitrary: unicode }, { weight: 1, arbitrary: fc.constantFrom('\ud800', '\udfff') });
export const anyText = (most = 40): fc.Arbitrary<string> => fc.string({ unit, maxLength: most });

export const jsonValue: fc.Arbitrary<JsonValue> = fc
  .jsonValue({ stringUnit: unit })
  // Sound: what fast-check calls a JSON value is one.
  .map((value) => value as JsonValue);

export const jsonObject: fc.Arbitrary<JsonObject> = fc.dictionary(anyText(8), jsonValue, {
  maxKeys: 5,
  noNullPrototype: true,
});

export const hex64 = fc.stringMatching(/^[0-9a-f]{64}$/);

/** Legal tool names, many of which are easily mistaken for something else. */
export const toolName = fc.oneof(
  fc.stringMatching(/^[a-z_.]{1,12}$/),
  fc.stringMatching(/^[a-z]{1,4}__[a-z]{1,4}$/),
  fc.constantFrom(
    'constructor',
    '__proto__',
    'toString',
    'issue.get',
    'issue_get',
    'issue/get',
    'issue-get',
    'Issue_get',
  ),
  fc.stringMatching(/^[a-z_]{1,20}_[0-9a-f]{10,16}$/),
  fc.stringMatching(/^[a-zA-Z0-9_./-]{128}$/),
  fc.string({ unit, minLength: 1, maxLength: 64 }),
);

/** Legal server names; some differ only in characters that a model name cannot hold. */
export const serverName = fc.oneof(
  fc.constantFrom('files', 'files.a', 'files_a', 'files-a', 'files__a', 'a', 'a__b'),
  fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/),
);

const identifier = fc.constantFrom('ann', 'bob', 'cy', 'ops', 'sec');
export const approverList: fc.Arbitrary<ApproverList> = fc.record(
  {
    ids: fc.uniqueArray(identifier, { maxLength: 3 }),
    groups: fc.uniqueArray(identifier, { maxLength: 3 }),
    need: fc.integer({ min: 2, max: 3 }),
    notInitiator: fc.constant(true as const),
    remember: fc.subarray(['call', 'arguments', 'tool'] as const).map((scopes) => [...scopes]),
    may: fc.subarray(['edit', 'respond'] as const).map((rights) => [...rights]),
  },
  { requiredKeys: ['ids', 'groups'], noNullPrototype: true },
);

const action = fc.constantFrom('allow', 'ask', 'deny');
const deadlineSeconds = fc.integer({ min: 1, max: 31_536_000 });

/** Few names, so that layers of a policy often match the same tool. */
const glob = fc.constantFrom('*', 'files', 'mail', 'write_*', 'read_file', 'f*s');
const listed = fc.array(fc.constantFrom('files/*', 'files/write_file', '*/read_file', 'mail/send'), { maxLength: 3 });

/** The position of a rule makes its id distinct. */
const rules = fc
  .array(
    fc.record(
      {
        match: fc.record(
          {
            server: glob,
            tool: glob,
            annotations: fc.constantFrom({ readOnlyHint: true }, { destructiveHint: false }),
          },
          { requiredKeys: [], noNullPrototype: true },
        ),
        when: fc.constantFrom('a', 'b'),
        then: action,
        approvers: approverList,
        deadlineSeconds,
        explain: fc.constantFrom('So it is.'),
      },
      { requiredKeys: ['then'], noNullPrototype: true },
    ),
    { maxLength: 4 },
  )
  .map((each) => each.map((rule, index) => ({ ...rule, id: `r${index}` })));

export const policy: fc.Arbitrary<Policy> = fc.record(
  {
    rules,
    always: listed,
    never: listed,
    strategy: fc.constantFrom('always', 'never', 'annotations'),
    servers: fc.dictionary(
      fc.constantFrom('files', 'mail', 'constructor'),
      fc.record(
        {
          default: action,
          tools: fc.dictionary(
            fc.constantFrom('write_file', 'read_file', 'constructor', 'toString'),
            fc.oneof(
              action,
              fc.record({ action, approvers: approverList, deadlineSeconds }, { requiredKeys: ['action'] }),
            ),
            { noNullPrototype: true },
          ),
        },
        { requiredKeys: [], noNullPrototype: true },
      ),
      { noNullPrototype: true },
    ),
    approvers: approverList,
    deadlineSeconds,
  },
  { requiredKeys: [], noNullPrototype: true },
);
