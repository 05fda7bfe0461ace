/**
 * Keeps the organisation's policy up to date: the section `policy` of the configuration is read again when its file
 * changes. Workers judge by it, and gateways explain by it.
 *
 * 1. The policy never opens by a fault (INV-G4): a file that is unreadable, invalid, or has lost its policy changes
 *    nothing, and is logged as an error.
 * 2. A file is read after two looks have found it the same: a half-written file is no policy. One that cannot be read
 *    is read again at each look: a process may be out of files for a moment, and the new policy may halt everything.
 * 3. The rest of the configuration is read once, when the process starts.
 */
import type { BigIntStats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { z } from 'zod';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { OrganisationPolicy } from '../../contracts/schemas/policy.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { type Environment, type LoadedConfig, notValid, readConfigFile, substitute } from './load.ts';
import { approverWarnings, conditionProblems, routeToNowhere, ruleWarnings } from './warnings.ts';

/** Milliseconds between two looks at the file: a change takes effect after one to two of them. */
const LOOK_MS = 500;

export interface Told {
  error(message: string): void;
  warn(message: string): void;
}

const Section = z.object({ policy: OrganisationPolicy.optional() });

/** What is followed: the policy of now, and what else of the configuration a policy may name. */
interface FollowedConfig {
  readonly policy: OrganisationPolicy;
  readonly servers: Readonly<Record<string, unknown>>;
  readonly notify: { readonly channels: Readonly<Record<string, unknown>> };
}

export interface LivePolicy {
  readonly current: OrganisationPolicy;
  stop(): void;
  /** Never throws. */
  look(): Promise<void>;
}

/** @param lookMs 0: only `look` looks */
export function followPolicyFile(
  { config, path }: { readonly config: FollowedConfig; readonly path: string },
  environment: Environment,
  told: Told,
  lookMs = LOOK_MS,
  readFile: typeof readConfigFile = readConfigFile,
): LivePolicy {
  let current = config.policy;
  /** State of the file when it was last looked at, and when it was last read. */
  let [seen, read] = ['', ''];
  /** State of the file that could not be read, which is told once. */
  let unread = '';
  let isLooking = false;
  const take = (policy: OrganisationPolicy): void => {
    if (canonicalJson(policy) === canonicalJson(current)) return;
    current = policy;
    told.warn(`Policy has changed: ${hashOf(policy).slice(0, 12)} of ${path} is in force.`);
    for (const warning of [...ruleWarnings(policy, Object.keys(config.servers)), ...approverWarnings({ policy })])
      told.warn(warning);
  };
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    try {
      const now = await stateOf(path);
      const isSteady = now === seen;
      seen = now;
      if (!isSteady || now === read) return;
      const file = await readFile(path, {}, '/');
      const policy = policyIn(file, environment, config, current);
      // The file changed while it was read: the next look reads it again.
      if ((await stateOf(path)) !== now) return;
      read = now;
      unread = '';
      take(policy);
    } catch (error) {
      const isUnread = error instanceof CountersignError && error.cause !== undefined;
      if (isUnread && unread === seen) return;
      if (isUnread) unread = seen;
      else read = seen;
      told.error(`The policy of before stays in force. ${wordsOf(error, path)}`);
    } finally {
      isLooking = false;
    }
  };
  const timer = lookMs > 0 ? setInterval(() => void look(), lookMs).unref() : undefined;
  return {
    get current() {
      return current;
    },
    stop: () => clearInterval(timer),
    look,
  };
}

async function stateOf(path: string): Promise<string> {
  // A replaced file is another one, whatever its times say; a missing file is a state too.
  const found: BigIntStats | undefined = await stat(path, { bigint: true }).catch(() => undefined);
  return found === undefined ? 'gone' : `${found.dev}/${found.ino}/${found.size}/${found.mtimeNs}/${found.ctimeNs}`;
}

function policyIn(
  file: Awaited<ReturnType<typeof readConfigFile>>,
  environment: Environment,
  { notify }: FollowedConfig,
  current: OrganisationPolicy,
): OrganisationPolicy {
  const what = file?.what ?? 'configuration';
  const picked = isFields(file?.value) && 'policy' in file.value ? { policy: file.value['policy'] } : {};
  const { policy } = parseAs(Section, substitute(picked, environment, what), 'CONFIG_INVALID', what);
  if (policy === undefined) {
    const none = OrganisationPolicy.parse({});
    if (canonicalJson(current) === canonicalJson(none)) return none;
    throw invalid(`The ${what} has no policy any more. Write policy: {} where none is meant.`);
  }
  const unknown = routeToNowhere(policy, Object.keys(notify.channels));
  if (unknown !== undefined)
    throw invalid(
      `The ${what} is not valid: ${unknown.path} names no channel that was there when this process started. Correct it, or start it anew.`,
    );
  const [problem] = conditionProblems(policy);
  if (problem !== undefined) throw notValid(what, `${problem.path} ${problem.reason}`);
  return policy;
}

function wordsOf(error: unknown, path: string): string {
  if (!(error instanceof CountersignError)) return 'The configuration cannot be read.';
  if (error.cause === undefined) return error.message;
  // Nobody has to name another file here: this one is read again by itself.
  return `The configuration file ${path} cannot be read (${nodeCodeOf(error.cause) ?? 'error'}). Put it back, or let this process read it: it is read again by itself.`;
}

function invalid(message: string): CountersignError {
  return new CountersignError('CONFIG_INVALID', message);
}

/** Returns a configuration whose policy changes: who keeps the object sees it, who keeps the policy does not. */
export function withLivePolicy(loaded: LoadedConfig, live: Pick<LivePolicy, 'current'>): LoadedConfig {
  return {
    ...loaded,
    config: {
      ...loaded.config,
      get policy() {
        return live.current;
      },
    },
  };
}
