/** The port by which pages read and send, as the person who is signed in. */
import type { RunRow } from '../../../contracts/schemas/http-api.ts';
import type { ApprovalRequest, DecisionAck } from '../../../contracts/schemas/request.ts';
import type { LedgerEntry } from '../../../contracts/schemas/ledger.ts';
import type { RunState } from '../../../contracts/schemas/run-state.ts';
import type { Asker } from '../../identity/person.ts';
import type { Catalogs } from '../../catalog/catalogs.ts';
import type { CatalogSent } from '../../catalog/changes.ts';
import type { KnownTool } from '../../catalog/definitions.ts';
import type { CheckedLedger } from '../../projection/opened.ts';
import type { Message } from '../../../contracts/schemas/transcript.ts';

export type Place = 'catalogs' | 'start';

export interface Viewer extends Asker {
  /** Secret of the session that every form repeats. */
  readonly csrf: string;
  readonly places?: ReadonlySet<Place>;
  /** Set for the development login: every page says so. */
  readonly development?: true;
}

export type RunFacts = Pick<RunRow, 'runId' | 'initiator' | 'startedAt' | 'endedAt' | 'status'>;

export interface Listed {
  readonly request: ApprovalRequest;
  readonly run: RunFacts;
}

export interface Inbox {
  readonly requests: readonly Listed[];
  readonly mine: number;
  /** Set if more wait for the viewer than are counted. */
  readonly mineIsMore?: true;
  /** Set if there are more than are listed. */
  readonly more?: number;
  /** Set if there are more than that, too. */
  readonly moreIsMore?: true;
  readonly asOf: string;
}

export interface Placed {
  readonly at: number;
  readonly message: Message;
}

export interface RunRead {
  readonly facts: RunFacts;
  readonly state: RunState;
  readonly requests: readonly ApprovalRequest[];
  readonly ledger: readonly LedgerEntry[];
  readonly messages: readonly Placed[];
  readonly mayTell: boolean;
  readonly temporalUi?: string;
}

export interface Sent {
  readonly runId: string;
  readonly update: 'decide' | 'provideInput' | 'authorize' | 'resolveOutcome';
  /** The message without its approver: that is the viewer. */
  readonly message: Readonly<Record<'callId' | 'digest' | 'runId' | 'decisionId', string>> &
    Readonly<Record<string, unknown>>;
}

export interface CatalogSource extends Pick<Catalogs, 'list' | 'read' | 'tool'> {
  readonly servers: readonly string[];
  mayConnect(viewer: Viewer): boolean;
  /** Waits some seconds for the refresh that it causes. @throws CountersignError as `CatalogHandle` */
  send(viewer: Viewer, server: string, sent: CatalogSent): Promise<void>;
  /**
   * Calls back when a catalog that the viewer sees may have changed, until the returned function is called.
   * @param server absent: all catalogs
   */
  changes(viewer: Viewer, server: string | undefined, listener: () => void): () => void;
}

export interface AgentOffer {
  readonly name: string;
  readonly title: string;
  readonly description?: string | undefined;
  readonly model: string;
  readonly servers: readonly string[];
}

export interface PageSource {
  /** Pages beyond the inbox and the runs that the viewer has. */
  places(viewer: Viewer): ReadonlySet<Place>;
  readonly catalogs: CatalogSource;
  readonly agents: readonly AgentOffer[];
  /**
   * Starts a run of a configured agent in the viewer's name.
   * @param key lets a form that is sent twice start one run
   * @throws CountersignError `ACTION_FORBIDDEN`, `SPEC_INVALID`, and as `Countersign.startRun`
   */
  start(viewer: Viewer, agent: string, input: string, key: string): Promise<string>;
  /** @param everyone also requests that the viewer may see and not decide */
  inbox(viewer: Viewer, everyone: boolean): Promise<Inbox>;
  runs(viewer: Viewer): Promise<readonly RunFacts[]>;
  /** @throws CountersignError `RUN_NOT_FOUND`, also for a run that the viewer may not see */
  run(viewer: Viewer, runId: string): Promise<RunRead>;
  /** @throws CountersignError `RUN_NOT_FOUND`, `ARTIFACT_MISSING` if older entries cannot be read */
  check(viewer: Viewer, runId: string): Promise<CheckedLedger>;
  /** Never throws: a request is shown also where its tool's definition cannot be read. */
  tool(viewer: Viewer, request: ApprovalRequest): Promise<KnownTool>;
  /**
   * @returns what a decision came to; undefined of other answers
   * @throws CountersignError as `RunHandle.decide` and its kin
   */
  send(viewer: Viewer, sent: Sent): Promise<DecisionAck['status'] | undefined>;
  /** @param messageId lets a form that is sent twice count once */
  say(viewer: Viewer, runId: string, text: string, messageId: string | undefined): Promise<void>;
  stop(viewer: Viewer, runId: string, reason: string): Promise<void>;
  /** Calls back when something that people see may have changed, until the returned function is called. */
  changes(viewer: Viewer, listener: () => void): () => void;
}
