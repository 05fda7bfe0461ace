/** What a namespace needs before runs can be started in it: the search attributes. */
import type { Connection } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { CountersignError } from '../contracts/errors.ts';
import { SEARCH_ATTRIBUTES, type SearchAttributeName } from '../contracts/names.ts';

/** `temporal.api.enums.v1.IndexedValueType`. */
const INDEXED_VALUE_TYPES = { KEYWORD: 2, INT: 3, DATETIME: 6, KEYWORD_LIST: 7 } as const;

type AnyConnection = Pick<Connection | NativeConnection, 'operatorService'>;

export interface SetupReport {
  readonly namespace: string;
  readonly added: readonly SearchAttributeName[];
  readonly present: readonly SearchAttributeName[];
}

/** Registers what is missing; a second call changes nothing. */
export async function setUpNamespace(connection: AnyConnection, namespace: string): Promise<SetupReport> {
  const missing = await missingAttributes(connection, namespace);
  if (missing.length > 0) {
    const searchAttributes = Object.fromEntries(
      missing.map((name) => [name, INDEXED_VALUE_TYPES[SEARCH_ATTRIBUTES[name]]]),
    );
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes });
  }
  return { namespace, added: missing, present: names().filter((name) => !missing.includes(name)) };
}

/** A worker must not start where it would fail its first upsert. */
export async function assertSetUp(connection: AnyConnection, namespace: string): Promise<void> {
  const missing = await missingAttributes(connection, namespace);
  if (missing.length === 0) return;
  throw new CountersignError(
    'SETUP_INCOMPLETE',
    `Namespace ${namespace} lacks the search attributes ${missing.join(', ')}. Run: countersign setup --namespace ${namespace}`,
  );
}

async function missingAttributes(connection: AnyConnection, namespace: string): Promise<SearchAttributeName[]> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  const wrong = names().filter((name) => {
    const type = customAttributes[name];
    return type !== undefined && type !== null && type !== INDEXED_VALUE_TYPES[SEARCH_ATTRIBUTES[name]];
  });
  if (wrong.length > 0) {
    throw new CountersignError(
      'SETUP_INCOMPLETE',
      `Namespace ${namespace} has ${wrong.join(', ')} with another type; remove them or use another namespace.`,
    );
  }
  return names().filter((name) => customAttributes[name] === undefined || customAttributes[name] === null);
}

function names(): SearchAttributeName[] {
  // Sound: the keys of a literal object.
  return Object.keys(SEARCH_ATTRIBUTES) as SearchAttributeName[];
}
