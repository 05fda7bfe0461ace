/**
 * Reads from `countersign.yaml` what a client needs, and opens its connection.
 *
 * 1. Nothing else in the file is read, so that a client needs none of the workers' secrets (INV-S1). Credentials of a
 *    bucket may be missing: only a command that reads an artifact reports that.
 * 2. Commands of the vault read only the vault and the server URLs, and need no other secret of the workers (INV-S1).
 * 3. What only some commands need (the parts of workers, conditions of policy) is loaded when it is used.
 *
 * One file, because settings are read for sessions alone.
 */
import { resolve } from 'node:path';
import { Client, type Connection } from '@temporalio/client';
import { troubleOf } from '../../client/engine/trouble.ts';
import {
  Countersign,
  readArtifactsFrom,
  readArtifactsFromBucket,
  readSigner,
  type Signer,
} from '../../client/index.ts';
import { fieldOf } from '../../client/ledger/files.ts';
import type { ArtifactReader } from '../../client/ledger/ledger.ts';
import type { SealingTargets } from '../../client/run/start-run.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import { Config, type ConfigInput } from '../../contracts/schemas/config.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { PolicyInput } from '../../contracts/schemas/policy.ts';
import type { ArtifactsConfig, BucketConfig } from '../../contracts/schemas/stores.ts';
import { isTrustUrl, type TrustedJwk } from '../../contracts/schemas/trust.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { visible } from '../../domain/text/escape.ts';
import { createDataConverter } from '../../workers/codec.ts';
import { type Environment, readConfigFile, substitute } from '../../workers/config/load.ts';
import type { ConditionProblem } from '../../workers/config/warnings.ts';
import { connectClient, type EngineAddress, locateEngine } from '../../workers/connection.ts';
import { assertSetUp } from '../../workers/setup.ts';
import { type GlobalOptions, usage } from './options.ts';
import type { Terminal } from './terminal.ts';

/** The part of a terminal that says where configurations are, and what their variables hold. */
export type Place = Pick<Terminal, 'env' | 'directory'>;

export type ClientSettings = Awaited<ReturnType<typeof loadClientSettings>>;

export async function loadClientSettings(path: string | undefined, { env, directory }: Place) {
  const file = await openConfig(path, { env, directory });
  const { value, what, baseDirectory } = file;
  const { parts, withoutBucket } = reachable(pick(value, FOR_CLIENT), env, what);
  const config = configOf(parts, env, what);
  const { taskQueue, encryption, artifacts, egress } = config;
  const place: ArtifactPlace =
    withoutBucket === undefined
      ? placeOf(artifacts, baseDirectory, egress.allowInsecure)
      : { kind: 'unreadable', reason: withoutBucket };
  return {
    ...policySettings(config, value),
    taskQueue,
    encryption,
    artifacts: place,
    // A mode that is not known here is taken for the stricter one.
    isSigned: knownHere(() => isSigned(value, env, what)) ?? true,
    ...defined({
      retentionDays: artifacts.retentionDays,
      /** The configuration file, absolute; absent if there is none. */
      path: file.path,
      deployment: deploymentIn(value, env, what),
    }),
  };
}

/** Needs no secret at all. An unknown section may be a mistyped `policy`, so the file is refused, as workers do. */
export async function loadPolicySettings(path: string | undefined, { env, directory }: Place) {
  const { value, what } = await openConfig(path, { env, directory });
  const parts = pick(value, FOR_POLICY);
  const config = configOf(isFields(parts) ? { ...parts, ...unknownSections(value) } : parts, env, what);
  await refuseConditions(config.policy, ['policy'], 'CONFIG_INVALID', 'policy of the configuration');
  return policySettings(config, value);
}

function policySettings({ servers, policy }: Config, value: unknown) {
  const named = Object.entries(servers);
  return {
    /** The organisation's policy: workers with this file judge by the same one that a command shows. */
    policy,
    serverUrls: Object.fromEntries(named.map(([name, { url }]) => [name, url])),
    /** Server name → true if the operator trusts the server's annotations. */
    trusted: Object.fromEntries(named.map(([name, { trusted }]) => [name, trusted])),
    /** Server name → tools whose calls may be sent twice. */
    repeatable: Object.fromEntries(named.map(([name, { repeatable }]) => [name, repeatable])),
    channels: channelsIn(value),
  };
}

const SHOWN_PROBLEMS = 5;

/** @throws CountersignError with the given `code`, naming each condition that cannot be evaluated */
export async function refuseConditions(
  policy: PolicyInput,
  at: readonly (string | number)[],
  code: ErrorCode,
  what: string,
): Promise<void> {
  const { conditionProblems } = await import('../../workers/config/warnings.ts');
  refuseProblems(conditionProblems(policy, at), code, what);
}

/** @throws CountersignError with the given `code`, naming the first problems; none if there are none */
export function refuseProblems(problems: readonly ConditionProblem[], code: ErrorCode, what: string): void {
  const [first] = problems;
  if (first === undefined) return;
  const shown = problems.slice(0, SHOWN_PROBLEMS).map(({ path, reason }) => `${path} ${visible(reason)}`);
  const more = problems.length > shown.length ? `; and ${problems.length - shown.length} more` : '';
  throw new CountersignError(code, `The ${what} is not valid: ${shown.join('; ')}${more}. Correct it and try again.`, {
    path: first.path,
  });
}

/** Undefined also if a variable of the workers says it that is not set here. */
function deploymentIn(value: unknown, env: Environment, what: string): string | undefined {
  const name = knownHere(() => substitute(fieldOf(fieldOf(fieldOf(value, 'worker'), 'deployment'), 'name'), env, what));
  return typeof name === 'string' ? name : undefined;
}

/**
 * True in trust mode `signed`; the keys themselves are for workers.
 * @throws CountersignError `CONFIG_INVALID` if a variable says the mode that is not set here
 */
export function isSigned(value: unknown, env: Environment, what: string): boolean {
  return substitute(fieldOf(fieldOf(value, 'trust'), 'mode'), env, what, ['trust', 'mode']) === 'signed';
}

/** Returns undefined if a variable is not set here: most commands need none of the workers'. */
function knownHere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof CountersignError)) throw error;
    return undefined;
  }
}

/** The names alone: what a channel holds may be secret, and a policy names it by its name. */
function channelsIn(value: unknown): readonly string[] {
  const channels = fieldOf(fieldOf(value, 'notify'), 'channels');
  return isFields(channels) ? Object.keys(channels) : [];
}

function placeOf({ s3, directory }: ArtifactsConfig, base: string, allowInsecure: boolean): ArtifactPlace {
  return s3 === undefined
    ? { kind: 'directory', directory: resolve(base, directory) }
    : { kind: 'bucket', bucket: s3, allowInsecure };
}

/** Leaves out the bucket if its environment variables are not set here. */
function reachable(parts: unknown, env: Environment, what: string) {
  if (!isFields(parts) || !isFields(parts['artifacts'])) return { parts };
  const { s3, ...rest } = parts['artifacts'];
  try {
    substitute(s3, env, what, ['artifacts', 's3']);
    return { parts };
  } catch (error) {
    if (!(error instanceof CountersignError)) throw error;
    return { parts: { ...parts, artifacts: rest }, withoutBucket: error.message };
  }
}

/** Names the fields that are read, `*` those of any name; true for a whole one. */
type Wanted = true | { readonly [name: string]: Wanted };
export type WantedParts = Partial<Record<keyof ConfigInput, Wanted>>;

const FOR_POLICY = {
  taskQueue: true,
  servers: { '*': { url: true, trusted: true, repeatable: true } },
  policy: true,
  egress: { allowInsecure: true },
} as const;
const FOR_CLIENT = { ...FOR_POLICY, encryption: true, artifacts: true } as const;
const FOR_VAULT = { vault: true, servers: { '*': { url: true } } } as const;
/** Not the keys of the zone: workers alone have them. */
const FOR_TRUST = { trust: { mode: true, jwks: true } } as const;

/** What is no object is kept as it is, for the check to refuse. */
function pick(value: unknown, wanted: Wanted): unknown {
  if (wanted === true || !isFields(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, found]) => {
      const part = Object.hasOwn(wanted, name) ? wanted[name] : wanted['*'];
      return part === undefined ? [] : [[name, pick(found, part)]];
    }),
  );
}

/** Sections that no configuration has, for the check to refuse; without what stands in them. */
function unknownSections(value: unknown): object {
  const unknown = isFields(value) ? Object.keys(value).filter((name) => !Object.hasOwn(Config.shape, name)) : [];
  return Object.fromEntries(unknown.map((name) => [name, null]));
}

/** The whole file, unchecked; empty if there is none. */
async function openConfig(path: string | undefined, { env, directory }: Place) {
  const file = await readConfigFile(path, env, directory);
  const value: unknown = file?.value ?? {};
  return { what: 'configuration', baseDirectory: directory, path: undefined, ...file, value };
}

function configOf(parts: unknown, env: Environment, what: string): Config {
  return parseAs(Config, substitute(parts, env, what), 'CONFIG_INVALID', what);
}

/**
 * Reads these parts of a configuration, and needs the variables of no other. `value` is the whole file, unchecked.
 * @throws CountersignError `CONFIG_INVALID`
 */
export async function readParts({ env, directory }: Place, path: string | undefined, wanted: WantedParts) {
  const file = await openConfig(path, { env, directory });
  return { ...file, config: configOf(pick(file.value, wanted), env, file.what) };
}

export async function openVaultSettings(terminal: Terminal, { config: path }: GlobalOptions) {
  const { config, baseDirectory, what } = await readParts(terminal, path, FOR_VAULT);
  const { openVault } = await import('../../workers/composition.ts');
  const vault = openVault({ config, baseDirectory }, terminal.env);
  if (vault === undefined)
    throw new CountersignError('CONFIG_INVALID', `The ${what} names no vault. Configure one (vault) and try again.`, {
      path: 'vault',
    });
  // Absent if the vault does not encrypt.
  const keyId = config.vault?.kind === 'directory' ? config.vault.keys[0]?.id : undefined;
  return {
    vault,
    serverUrls: Object.fromEntries(Object.entries(config.servers).map(([name, { url }]) => [name, url])),
    ...defined({ keyId }),
  };
}

/**
 * Reads the trusted keys; undefined in trust mode `temporal`, or without a configuration.
 * @param mayAsk true if keys at a URL may be fetched
 * @throws CountersignError `CONFIG_INVALID`, `TRUST_UNAVAILABLE`
 */
export async function configuredKeys(
  path: string | undefined,
  place: Place,
  mayAsk: boolean,
): Promise<readonly TrustedJwk[] | undefined> {
  const { trust } = (await readParts(place, path, FOR_TRUST)).config;
  if (trust.mode === 'temporal' || (isTrustUrl(trust.jwks) && !mayAsk)) return undefined;
  const { config, baseDirectory } = await readParts(place, path, { ...FOR_TRUST, egress: true });
  const { readTrustedKeys } = await import('../../workers/composition.ts');
  return await readTrustedKeys(trust.jwks, { config, baseDirectory });
}

type ArtifactPlace =
  /** Absolute path. */
  | { readonly kind: 'directory'; readonly directory: string }
  /** With `allowInsecure`, workers may speak to the bucket in clear, and so may this command. */
  | { readonly kind: 'bucket'; readonly bucket: BucketConfig; readonly allowInsecure: boolean }
  /** A bucket whose credentials this client does not have; most commands need none. */
  | { readonly kind: 'unreadable'; readonly reason: string };

export function artifactReader(place: ArtifactPlace): ArtifactReader {
  switch (place.kind) {
    case 'directory':
      return readArtifactsFrom(place.directory);
    case 'bucket':
      return readArtifactsFromBucket(place.bucket, place);
    case 'unreadable':
      return { get: () => Promise.reject(new CountersignError('ARTIFACT_MISSING', place.reason)) };
  }
}

export interface Session {
  readonly client: Client;
  readonly countersign: Countersign;
  readonly settings: ClientSettings;
  readonly deadlineMs: number;
}

/** For calls of `client` itself; calls of `countersign` apply the deadline by themselves. */
export async function inTime<T>({ client, deadlineMs }: Session, ask: () => Promise<T>): Promise<T> {
  return await client.connection.withDeadline(Date.now() + deadlineMs, ask);
}

export interface SessionOptions extends GlobalOptions {
  /** Groups that are claimed with the key, in messages that name no groups themselves. */
  readonly claims?: readonly string[] | undefined;
}

const DEFAULT_DEADLINE_SECONDS = 10;
const SETUP_CHECK_MS = 2_000;

/**
 * Connects for the time of `use`.
 * @param servers gives the target of each authorization, once the settings are known
 */
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

/** Codes that Temporal also gives for a namespace that is not set up. */
const SAID_WITHOUT_SETUP: readonly ErrorCode[] = ['RUN_NOT_FOUND', 'CATALOG_NOT_FOUND', 'USAGE', 'SETUP_INCOMPLETE'];

/** Returns the error, or a better one if the namespace is not set up; it names the address, which may be wrong. */
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
  throw usage('A group is claimed with a signature: name a key (--key FILE), or leave --group out. Nothing was sent.');
}

/** @throws CountersignError `CONFIG_INVALID` if the profile or its file is missing or wrong */
export function locate(options: GlobalOptions): EngineAddress {
  try {
    return locateEngine(options);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `The Temporal connection cannot be read from profile and environment: ${reason}`;
    throw new CountersignError('CONFIG_INVALID', message, {}, { cause: error });
  }
}

/** Most that a timer of Node holds: with more it ends at once. A result may be waited for longer than that. */
const LONGEST_TIMER_MS = 2_147_483_647;

async function connect(options: EngineAddress['connectionOptions'], deadlineMs: number): Promise<Connection> {
  try {
    return await connectClient({ ...options, connectTimeout: Math.min(deadlineMs, LONGEST_TIMER_MS) });
  } catch (error) {
    throw unreachable(options.address, error);
  }
}

export function unreachable(address: string | undefined, cause: unknown): CountersignError {
  const trouble = troubleOf(cause, '');
  // Temporal answered and refused access, so starting another server would not help.
  if (trouble.code === 'CONFIG_INVALID') return trouble;
  const message = `Temporal does not answer at ${addressOf(address)}. Start it (countersign dev, for trials), or name another with --address.`;
  return new CountersignError('ENGINE_UNAVAILABLE', message, {}, { cause });
}
