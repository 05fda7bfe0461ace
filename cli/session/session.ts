/** Opens a connection to Temporal, and the client library on it, for the duration of a command. */
import { resolve } from 'node:path';
import { Client, type Connection, ServiceError } from '@temporalio/client';
import { troubleOf } from '../../client/engine/engine.ts';
import { Countersign, readSigner, type Signer } from '../../client/index.ts';
import type { SealingTargets } from '../../client/run/start-run.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import { createDataConverter } from '../../workers/codec.ts';
import { connectClient, type EngineAddress, locateEngine } from '../../workers/connection.ts';
import { isAway } from '../../workers/engine-wait.ts';
import { assertSetUp } from '../../workers/setup.ts';
import { artifactReader } from './artifact-reader.ts';
import type { GlobalOptions } from './options.ts';
import { type ClientSettings, loadClientSettings } from './settings.ts';
import type { Terminal } from './terminal.ts';

export interface Session {
  readonly client: Client;
  readonly countersign: Countersign;
  readonly settings: ClientSettings;
  /** Deadline for calls of `client` itself; calls of `countersign` apply it by themselves. */
  readonly deadlineMs: number;
}

export interface SessionOptions extends GlobalOptions {
  /** Groups that are claimed with the key, in messages that name no groups themselves. */
  readonly claims?: readonly string[] | undefined;
}

const DEFAULT_DEADLINE_SECONDS = 10;
const SETUP_CHECK_MS = 2_000;

/** @param servers gives the target of each authorization, once the settings are known */
export async function withSession<T>(
  terminal: Terminal,
  options: SessionOptions,
  use: (session: Session) => Promise<T>,
  servers: (settings: ClientSettings) => SealingTargets = () => ({}),
): Promise<T> {
  const settings = await loadClientSettings(options.config, terminal);
  const targets = servers(settings);
  const deadlineMs = (options.deadline ?? DEFAULT_DEADLINE_SECONDS) * 1_000;
  const signer = await signerOf(terminal, options);
  const { connectionOptions, namespace } = locate(options);
  const connection = await connect(connectionOptions, deadlineMs);
  try {
    const client = new Client({ connection, namespace, dataConverter: createDataConverter(settings) });
    const artifacts = artifactReader(settings.artifacts);
    return await use({
      client,
      countersign: new Countersign({
        client,
        servers: targets,
        artifacts,
        taskQueue: settings.taskQueue,
        deadlineMs,
        ...(signer && { signer }),
      }),
      settings,
      deadlineMs,
    });
  } catch (error) {
    throw await asSetUp(error, connection, { namespace, address: connectionOptions.address });
  } finally {
    await connection.close();
  }
}

/**
 * Codes of errors that Temporal also gives if a namespace is not set up: the run is not found, or a value is not
 * accepted.
 */
const SAID_WITHOUT_SETUP: readonly ErrorCode[] = ['RUN_NOT_FOUND', 'CATALOG_NOT_FOUND', 'USAGE', 'SETUP_INCOMPLETE'];

/**
 * Returns the error, or a better one if the namespace is not set up. That one names the address, which may be the
 * mistake.
 */
async function asSetUp(
  error: unknown,
  connection: Connection,
  { namespace, address }: { readonly namespace: string; readonly address: string | undefined },
): Promise<unknown> {
  if (!(error instanceof CountersignError) || !SAID_WITHOUT_SETUP.includes(error.code)) return error;
  try {
    const within = Date.now() + SETUP_CHECK_MS;
    await connection.withDeadline(within, () => assertSetUp(connection, namespace, addressOf(address)));
    return error;
  } catch (found) {
    return found instanceof CountersignError ? found : error;
  }
}

function addressOf(address: string | undefined): string {
  return address ?? 'localhost:7233';
}

async function signerOf(
  { env, directory }: Terminal,
  { key = env['COUNTERSIGN_KEY'], claims }: SessionOptions,
): Promise<Signer | undefined> {
  if (key !== undefined && key !== '') return await readSigner(resolve(directory, key), key, claims);
  if (claims === undefined) return undefined;
  throw new CountersignError(
    'USAGE',
    'A group is claimed with a signature: name a key (--key FILE), or leave --group out. Nothing was sent.',
  );
}

/** @throws CountersignError `CONFIG_INVALID` if the profile or its file is missing or wrong */
export function locate(options: GlobalOptions): EngineAddress {
  try {
    return locateEngine(options);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CountersignError(
      'CONFIG_INVALID',
      `The Temporal connection cannot be read from profile and environment: ${reason}`,
      {},
      { cause: error },
    );
  }
}

async function connect(options: EngineAddress['connectionOptions'], deadlineMs: number): Promise<Connection> {
  try {
    return await connectClient({ ...options, connectTimeout: deadlineMs });
  } catch (error) {
    throw unreachable(options.address, error);
  }
}

/** True for an error of Temporal or of the connection to it that has no code of ours yet. */
export function isEngineTrouble(error: unknown): error is Error {
  return error instanceof ServiceError || isAway(error);
}

/**
 * Finds out why a worker has no connection. Native errors are only text, whereas a client connection's error has a
 * code.
 */
export async function whyUnreachable(
  options: EngineAddress['connectionOptions'],
  cause: unknown,
): Promise<CountersignError> {
  try {
    const connection = await connect(options, 1_000);
    await connection.close();
  } catch (error) {
    if (error instanceof CountersignError) return error;
  }
  return unreachable(options.address, cause);
}

function unreachable(address: string | undefined, cause: unknown): CountersignError {
  const trouble = troubleOf(cause, '');
  // Temporal answered and refused access, so starting another server would not help.
  if (trouble.code === 'CONFIG_INVALID') return trouble;
  const message = `Temporal does not answer at ${addressOf(address)}. Start it (npm run dev), or name another with --address.`;
  return new CountersignError('ENGINE_UNAVAILABLE', message, {}, { cause });
}
