/** Sets up the search attributes that a namespace needs before runs can start in it, and says what is missing. */
import { existsSync, readFileSync } from 'node:fs';
import { status as grpcStatus } from '@grpc/grpc-js';
import type { Connection } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { CountersignError } from '../contracts/errors.ts';
import { SEARCH_ATTRIBUTES } from '../contracts/names.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { StoreNamespace } from '../contracts/schemas/stores.ts';

/** `temporal.api.enums.v1.IndexedValueType`. */
const INDEXED_VALUE_TYPES = { KEYWORD: 2, INT: 3, DATETIME: 6, KEYWORD_LIST: 7 } as const;

const WANTED: ReadonlyMap<string, number> = new Map(
  Object.values(SEARCH_ATTRIBUTES).map(({ name, type }) => [name, INDEXED_VALUE_TYPES[type]]),
);

type AnyConnection = Pick<Connection | NativeConnection, 'operatorService' | 'workflowService'>;

export interface SetupReport {
  readonly namespace: string;
  readonly added: readonly string[];
  readonly present: readonly string[];
}

/** Registers missing search attributes; a second call changes nothing. */
export async function setUpNamespace(connection: AnyConnection, namespace: string): Promise<SetupReport> {
  const missing = await missingAttributes(connection, namespace);
  if (missing.length > 0) {
    const searchAttributes = Object.fromEntries([...WANTED].filter(([name]) => missing.includes(name)));
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes });
  }
  return { namespace, added: missing, present: [...WANTED.keys()].filter((name) => !missing.includes(name)) };
}

/**
 * Throws if something is missing: a worker must not start where it would fail its first upsert, and a command names
 * what is missing.
 * @param address of the service, for the message: it may be the mistake
 */
export async function assertSetUp(connection: AnyConnection, namespace: string, address?: string): Promise<void> {
  const missing = await missingAttributes(connection, namespace, address);
  if (missing.length === 0) return;
  const message = `Namespace ${at(namespace, address)} lacks the search attributes ${missing.join(', ')}. Run: countersign setup --namespace ${namespace}`;
  throw new CountersignError('SETUP_INCOMPLETE', message);
}

/** Identifies the namespace beyond its name: another service may have one of the same name. */
export async function identityOf(connection: AnyConnection, namespace: string): Promise<StoreNamespace> {
  const { namespaceInfo } = await connection.workflowService.describeNamespace({ namespace });
  const found = { name: namespace, id: namespaceInfo?.id };
  return parseAs(StoreNamespace, found, 'INTERNAL', 'description of the namespace');
}

async function missingAttributes(connection: AnyConnection, namespace: string, address?: string): Promise<string[]> {
  await assertNamespace(connection, namespace, address);
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  const wrong = [...WANTED].filter(([name, type]) => (customAttributes[name] ?? type) !== type).map(([name]) => name);
  if (wrong.length > 0) {
    const message = `Namespace ${at(namespace, address)} has ${wrong.join(', ')} with another type; remove them or use another namespace.`;
    throw new CountersignError('SETUP_INCOMPLETE', message);
  }
  return [...WANTED.keys()].filter((name) => customAttributes[name] === undefined || customAttributes[name] === null);
}

/** Asks for the namespace itself: if Elasticsearch holds the attributes, Temporal lists them for any name. */
async function assertNamespace({ workflowService }: AnyConnection, namespace: string, address?: string): Promise<void> {
  await workflowService.describeNamespace({ namespace }).catch((error: unknown) => {
    if (typeof error !== 'object' || error === null || !('code' in error) || error.code !== grpcStatus.NOT_FOUND)
      throw error;
    const message = `There is no namespace ${at(namespace, address)}. Create it (temporal operator namespace create --namespace ${namespace}) and run countersign setup, or name another with --namespace.`;
    throw new CountersignError('SETUP_INCOMPLETE', message, {}, { cause: error });
  });
}

function at(namespace: string, address: string | undefined): string {
  return address === undefined ? namespace : `${namespace} of Temporal at ${address}`;
}

export function packageVersion(): string {
  const root = packageRoot();
  if (root === undefined) return 'unknown';
  // Sound: npm takes no package without a version.
  return (JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { version: string }).version;
}

/**
 * Returns the folder of this package, in which its manifest and its examples lie. It searches upward: that is one
 * folder up in the sources, and two in the output of `npm run build`.
 */
export function packageRoot(folder = new URL('.', import.meta.url)): URL | undefined {
  if (existsSync(new URL('package.json', folder))) return folder;
  const above = new URL('..', folder);
  return above.href === folder.href ? undefined : packageRoot(above);
}
