/** A run calls its activities through these interfaces: the sandbox knows their shapes and nothing of their code. */
import type { RunSpecInput } from '../schemas/run-spec.ts';
import type { ArtifactRef } from '../schemas/json.ts';
import type { Discovery } from '../schemas/tool.ts';
import type { TrustSet } from '../schemas/trust.ts';
import type { CatalogDiscovery, DiscoverCatalogInput } from './catalog.ts';
import type { PollInput, PollResult } from './legacy-2025.ts';
import type { DigestInput, MessageInput, MessageSent } from './notify.ts';
import type { JudgeInput, JudgeResult, ModelStepInput, ModelStepResult, StoreSegmentInput } from './run.ts';
import type { BegunRun, StretchInput, StretchResult } from './stretch.ts';
import type { DiscoverInput, DispatchInput, DispatchResult, ResumeInput, TurnedAway } from './tools.ts';

/** Short and repeatable activities on the run's own workers. */
export interface RunActivities {
  /** Checks what a starter sent; on a worker of both roles the run goes on in it, but for `alone` (docs/adr/0062). */
  prepareRun(spec: RunSpecInput, alone?: true): Promise<BegunRun>;
  /** Reads the current keys for runs of a tenant; undefined in trust mode `temporal`. */
  readTrust(tenant: string): Promise<TrustSet | undefined>;
  judge(input: JudgeInput): Promise<JudgeResult>;
  storeSegment(input: StoreSegmentInput): Promise<ArtifactRef>;
  /** Tells people of requests. May be repeated: the receiver knows the message by its key. */
  sendMessage(input: MessageInput): Promise<MessageSent>;
  /** Tells in one message what several runs have to tell. May be repeated: the receiver knows the message by its id. */
  sendDigest(input: DigestInput): Promise<void>;
}

export interface ModelActivities {
  modelStep(input: ModelStepInput): Promise<ModelStepResult>;
  /** Takes model steps, and makes the calls between them that need nobody. */
  stretch(input: StretchInput): Promise<StretchResult>;
}

/** Activities on workers that hold the server's credentials. */
export interface ToolActivities {
  discoverTools(input: DiscoverInput): Promise<Discovery | TurnedAway>;
  callTool(input: DispatchInput): Promise<DispatchResult>;
  /** Asks the server for a lost answer, and sends no call. */
  resumeCall(input: ResumeInput): Promise<DispatchResult>;
  /** Executes nothing, and may be repeated. */
  pollTask(input: PollInput): Promise<PollResult>;
  discoverCatalog(input: DiscoverCatalogInput): Promise<CatalogDiscovery>;
}
