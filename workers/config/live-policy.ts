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
import { routeToNowhere } from './routes.ts';
import { approverWarnings, conditionProblems, ruleWarnings } from './warnings.ts';

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

export class LivePolicy {
  readonly #path: string;
  readonly #servers: readonly string[];
  readonly #channels: readonly string[];
  readonly #environment: Environment;
  readonly #told: Told;
  readonly #readFile: typeof readConfigFile;
  readonly #timer: NodeJS.Timeout | undefined;
  #current: OrganisationPolicy;
  /** State of the file when it was last looked at, and when it was last read. */
  #seen = '';
  #read = '';
  /** State of the file that could not be read, which is told once. */
  #unread = '';
  #isLooking = false;

  constructor(
    { config, path }: { readonly config: FollowedConfig; readonly path: string },
    environment: Environment,
    told: Told,
    lookMs = LOOK_MS,
    readFile: typeof readConfigFile = readConfigFile,
  ) {
    this.#readFile = readFile;
    this.#path = path;
    this.#servers = Object.keys(config.servers);
    this.#channels = Object.keys(config.notify.channels);
    this.#environment = environment;
    this.#told = told;
    this.#current = config.policy;
    this.#timer = lookMs > 0 ? setInterval(() => void this.look(), lookMs).unref() : undefined;
  }

  get current(): OrganisationPolicy {
    return this.#current;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Never throws. */
  async look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const seen = await this.#stateOf();
      const isSteady = seen === this.#seen;
      this.#seen = seen;
      if (!isSteady || seen === this.#read) return;
      const policy = await this.#policyOf();
      // The file changed while it was read: the next look reads it again.
      if ((await this.#stateOf()) !== seen) return;
      this.#read = seen;
      this.#unread = '';
      this.#take(policy);
    } catch (error) {
      const isUnread = error instanceof CountersignError && error.cause !== undefined;
      if (isUnread && this.#unread === this.#seen) return;
      if (isUnread) this.#unread = this.#seen;
      else this.#read = this.#seen;
      this.#told.error(`The policy of before stays in force. ${isUnread ? this.#unreadable(error) : wordsOf(error)}`);
    } finally {
      this.#isLooking = false;
    }
  }

  /** Nobody has to name another file here: this one is read again by itself. */
  #unreadable({ cause }: CountersignError): string {
    return `The configuration file ${this.#path} cannot be read (${nodeCodeOf(cause) ?? 'error'}). Put it back, or let this process read it: it is read again by itself.`;
  }

  #take(policy: OrganisationPolicy): void {
    if (canonicalJson(policy) === canonicalJson(this.#current)) return;
    this.#current = policy;
    this.#told.warn(`Policy has changed: ${hashOf(policy).slice(0, 12)} of ${this.#path} is in force.`);
    for (const warning of [...ruleWarnings(policy, this.#servers), ...approverWarnings({ policy })])
      this.#told.warn(warning);
  }

  async #stateOf(): Promise<string> {
    // A replaced file is another one, whatever its times say; a missing file is a state too.
    const found: BigIntStats | undefined = await stat(this.#path, { bigint: true }).catch(() => undefined);
    return found === undefined ? 'gone' : `${found.dev}/${found.ino}/${found.size}/${found.mtimeNs}/${found.ctimeNs}`;
  }

  async #policyOf(): Promise<OrganisationPolicy> {
    const file = await this.#readFile(this.#path, {}, '/');
    const what = file?.what ?? 'configuration';
    const picked = isFields(file?.value) && 'policy' in file.value ? { policy: file.value['policy'] } : {};
    const { policy } = parseAs(Section, substitute(picked, this.#environment, what), 'CONFIG_INVALID', what);
    if (policy === undefined) {
      const none = OrganisationPolicy.parse({});
      if (canonicalJson(this.#current) === canonicalJson(none)) return none;
      throw invalid(`The ${what} has no policy any more. Write policy: {} where none is meant.`);
    }
    const unknown = routeToNowhere(policy, this.#channels);
    if (unknown !== undefined)
      throw invalid(
        `The ${what} is not valid: ${unknown.path} names no channel that was there when this process started. Correct it, or start it anew.`,
      );
    const [problem] = conditionProblems(policy);
    if (problem !== undefined) throw notValid(what, `${problem.path} ${problem.reason}`);
    return policy;
  }
}

function wordsOf(error: unknown): string {
  return error instanceof CountersignError ? error.message : 'The configuration cannot be read.';
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
