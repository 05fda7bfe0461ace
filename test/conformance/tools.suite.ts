/** What every `ToolServer` does, whatever speaks the protocol underneath. */
import type { ArtifactStore } from '../../activities/artifacts/port.ts';
import type { GuardedFetch } from '../../activities/egress/fetch.ts';
import type { ToolServer } from '../../activities/mcp/port.ts';
import { failureSuite } from './tools-failure.suite.ts';
import { listSuite } from './tools-list.suite.ts';
import { oversizedSuite } from './tools-oversized.suite.ts';
import { resourceSuite } from './tools-resource.suite.ts';
import { resultSuite } from './tools-result.suite.ts';
import { secretSuite } from './tools-secret.suite.ts';
import { sessionSuite } from './tools-session.suite.ts';
import { stopSuite } from './tools-stop.suite.ts';

export interface ToolServerHarness {
  readonly name: string;
  /** A new one, which has not spoken to anybody yet. */
  create(parts?: {
    readonly artifacts?: ArtifactStore;
    readonly fetch?: GuardedFetch;
    readonly connectMs?: number;
  }): ToolServer;
}

export function toolServerSuite(harness: ToolServerHarness): void {
  listSuite(harness);
  sessionSuite(harness);
  stopSuite(harness);
  failureSuite(harness);
  resultSuite(harness);
  oversizedSuite(harness);
  resourceSuite(harness);
  secretSuite(harness);
}
