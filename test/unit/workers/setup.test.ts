/** A worker does not start where runs would fail on their first upsert, and says what to run. */
import { expect, test } from '@jest/globals';
import { SEARCH_ATTRIBUTES } from '../../../contracts/names.ts';
import { assertSetUp, setUpNamespace } from '../../../workers/setup.ts';
import { withCode } from '../../support/refusal.ts';

/** `temporal.api.enums.v1.IndexedValueType`, as literals. */
const TYPES = { TEXT: 1, KEYWORD: 2, INT: 3, DATETIME: 6, KEYWORD_LIST: 7 } as const;

type Connection = Parameters<typeof assertSetUp>[0];
type Attributes = Readonly<Record<string, number>>;

const ALL: Attributes = Object.fromEntries(
  Object.values(SEARCH_ATTRIBUTES).map(({ name, type }) => [name, TYPES[type]]),
);

function without(name: string): Attributes {
  return Object.fromEntries(Object.entries(ALL).filter(([own]) => own !== name));
}

/** A service with one namespace, `agents`. */
function serviceWith(customAttributes: Attributes) {
  const added: unknown[] = [];
  const connection = {
    workflowService: {
      describeNamespace: async ({ namespace }: { namespace: string }) => {
        if (namespace !== 'agents') throw Object.assign(new Error('5 NOT_FOUND'), { code: 5 });
      },
    },
    operatorService: {
      listSearchAttributes: async () => ({ customAttributes }),
      addSearchAttributes: async (request: unknown) => void added.push(request),
    },
  };
  // Sound: these three calls are all that is used of the two services.
  return { connection: connection as unknown as Connection, added };
}

test('all there: a worker starts, and nothing is changed', async () => {
  const { connection, added } = serviceWith({ ...ALL, Foreign: TYPES.TEXT });
  await assertSetUp(connection, 'agents');
  expect(await setUpNamespace(connection, 'agents')).toMatchObject({ added: [] });
  expect(added).toEqual([]);
});

test.each(Object.keys(ALL))('%s is missing: the error names it, and the command that adds it', async (name) => {
  const { connection, added } = serviceWith(without(name));
  await expect(assertSetUp(connection, 'agents')).rejects.toMatchObject({
    code: 'SETUP_INCOMPLETE',
    message: `Namespace agents lacks the search attributes ${name}. Run: countersign setup --namespace agents`,
  });
  expect(added).toEqual([]);
  await setUpNamespace(connection, 'agents');
  expect(added).toEqual([{ namespace: 'agents', searchAttributes: { [name]: ALL[name] } }]);
});

test('one of another type is refused by name, by worker and by setup, which adds nothing then', async () => {
  const [wrong = '', missing = ''] = Object.keys(ALL);
  const { connection, added } = serviceWith({ ...without(missing), [wrong]: TYPES.TEXT });
  for (const attempt of [assertSetUp(connection, 'agents'), setUpNamespace(connection, 'agents')]) {
    await expect(attempt).rejects.toMatchObject({
      code: 'SETUP_INCOMPLETE',
      message: expect.stringMatching(new RegExp(`has ${wrong} with another type`)),
    });
  }
  expect(added).toEqual([]);
});

test('a namespace that is not there is named, with the command that creates it', async () => {
  const { connection } = serviceWith(ALL);
  await expect(assertSetUp(connection, 'elsewhere')).rejects.toMatchObject(
    withCode('SETUP_INCOMPLETE', 'temporal operator namespace create --namespace elsewhere'),
  );
});
