/**
 * What a client needs of `countersign.yaml`: queue, payload keys, artifact store, policy, where servers are.
 *
 * 1. Nothing else of the file is looked at, so that a client needs none of the workers' secrets (INV-S1). Credentials of a bucket
 *    may be missing: only a command that reads an artifact says so.
 */
import { resolve } from 'node:path';
import type { ArtifactsConfig } from '../contracts/schemas/artifact-store.ts';
import { Config, type ConfigInput } from '../contracts/schemas/config.ts';
import { CountersignError, type ErrorCode } from '../contracts/errors.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import type { PolicyInput } from '../contracts/schemas/policy.ts';
import { visible } from '../domain/escape.ts';
import { conditionProblems } from '../workers/condition-problems.ts';
import { type Environment, substitute } from '../workers/config-environment.ts';
import { type ConfigFile, readConfigFile } from '../workers/config-file.ts';
import type { ArtifactPlace } from './artifact-reader.ts';
import type { Terminal } from './terminal.ts';

export interface ClientSettings {
  readonly taskQueue: string;
  readonly encryption: Config['encryption'];
  readonly artifacts: ArtifactPlace;
  readonly retentionDays?: number;
  /** Server name → URL. */
  readonly serverUrls: Readonly<Record<string, string>>;
  /** Server name → does the operator trust its annotations? */
  readonly trusted: Readonly<Record<string, boolean>>;
  /** The organisation's: what a command shows of verdicts is what workers with this file judge. */
  readonly policy: Config['policy'];
}

export async function loadClientSettings(
  path: string | undefined,
  { env, directory }: Pick<Terminal, 'env' | 'directory'>,
): Promise<ClientSettings> {
  return await load(path, { env, directory }, pick);
}

/** For what asks neither Temporal nor the store: no secret at all. */
export async function loadPolicySettings(
  path: string | undefined,
  terminal: Pick<Terminal, 'env' | 'directory'>,
): Promise<Pick<ClientSettings, 'policy' | 'trusted' | 'serverUrls'>> {
  const settings = await load(path, terminal, (file) => {
    const picked = pick(file);
    if (!isRecord(picked)) return picked;
    const { encryption: _, artifacts: __, ...rest } = picked;
    return rest;
  });
  refuseConditions(settings.policy, ['policy'], 'CONFIG_INVALID', 'policy of the configuration');
  return settings;
}

const SHOWN_PROBLEMS = 5;

/** @throws CountersignError with `code`, naming each condition that cannot be evaluated */
export function refuseConditions(
  policy: PolicyInput,
  at: readonly (string | number)[],
  code: ErrorCode,
  what: string,
): void {
  const problems = conditionProblems(policy, at);
  const [first] = problems;
  if (first === undefined) return;
  const shown = problems.slice(0, SHOWN_PROBLEMS).map(({ path, reason }) => `${path} ${visible(reason)}`);
  const more = problems.length > shown.length ? `; and ${problems.length - shown.length} more` : '';
  throw new CountersignError(code, `The ${what} is not valid: ${shown.join('; ')}${more}. Correct it and try again.`, {
    path: first.path,
  });
}

async function load(
  path: string | undefined,
  { env, directory }: Pick<Terminal, 'env' | 'directory'>,
  wanted: (file: ConfigFile | undefined) => unknown,
): Promise<ClientSettings> {
  const file = await readConfigFile(path, env, directory);
  const what = file?.what ?? 'configuration';
  const { value, withoutBucket } = reachable(wanted(file), env, what);
  const { taskQueue, encryption, artifacts, servers, policy, egress } = parseAs(
    Config,
    substitute(value, env, what),
    'CONFIG_INVALID',
    what,
  );
  return {
    taskQueue,
    encryption,
    artifacts:
      withoutBucket === undefined
        ? placeOf(artifacts, file?.baseDirectory ?? directory, egress.allowInsecure)
        : { kind: 'unreadable', reason: withoutBucket },
    ...(artifacts.retentionDays === undefined ? {} : { retentionDays: artifacts.retentionDays }),
    serverUrls: Object.fromEntries(Object.entries(servers).map(([name, { url }]) => [name, url])),
    trusted: Object.fromEntries(Object.entries(servers).map(([name, { trusted }]) => [name, trusted])),
    policy,
  };
}

function placeOf({ s3, directory }: ArtifactsConfig, base: string, allowInsecure: boolean): ArtifactPlace {
  return s3 === undefined
    ? { kind: 'directory', directory: resolve(base, directory) }
    : { kind: 'bucket', bucket: s3, allowInsecure };
}

interface Reachable {
  readonly value: unknown;
  /** Why the bucket cannot be read from here. */
  readonly withoutBucket?: string;
}

/** Without a bucket whose variables are not set here. */
function reachable(value: unknown, env: Environment, what: string): Reachable {
  if (!isRecord(value) || !isRecord(value['artifacts'])) return { value };
  const { s3, ...rest } = value['artifacts'];
  try {
    substitute(s3, env, what, ['artifacts', 's3']);
    return { value };
  } catch (error) {
    if (!(error instanceof CountersignError)) throw error;
    return { value: { ...value, artifacts: rest }, withoutBucket: error.message };
  }
}

function pick(file: ConfigFile | undefined): unknown {
  if (!isRecord(file?.value)) return file?.value ?? {};
  const { taskQueue, encryption, artifacts, servers, policy, egress } = file.value;
  const shown = isRecord(servers)
    ? Object.fromEntries(Object.entries(servers).map(([name, server]) => [name, pickServer(server)]))
    : servers;
  const allowed = isRecord(egress) ? { allowInsecure: egress['allowInsecure'] } : undefined;
  const picked = { taskQueue, encryption, artifacts, servers: shown, policy, egress: allowed };
  return Object.fromEntries(Object.entries(picked).filter(([, value]) => value !== undefined)) satisfies Partial<
    Record<keyof ConfigInput, unknown>
  >;
}

function pickServer(server: unknown): unknown {
  if (!isRecord(server)) return server;
  const { url, trusted } = server;
  return { url, ...(trusted === undefined ? {} : { trusted }) };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
