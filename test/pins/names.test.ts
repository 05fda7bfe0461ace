/**
 * Names that waiting runs, old clients and other processes know. A pin's expected side is a literal, never an import:
 * changing one is a change of the wire, and needs its ADR.
 */
import { describe, expect, test } from '@jest/globals';
import { CODEC_METRICS, GATEWAY_METRICS, METRICS } from '../../contracts/metrics.ts';
import {
  ACTIVITIES,
  CATALOG_UPDATES,
  CATALOG_WORKFLOW,
  DEFAULT_TASK_QUEUE,
  DIGEST_PREFIX,
  DIGEST_WORKFLOW,
  PENDING_MEMO,
  PUBLISHED_PATHS,
  QUERIES,
  READ_RESOURCE,
  RUN_WORKFLOW,
  SEARCH_ATTRIBUTES,
  SIGNALS,
  SPEC_HASH_MEMO,
  DISPATCH_MEMO,
  TASK_MEMO,
  TICKET_MEMO,
  TICKET_RUN_MEMO,
  TICKET_WORKFLOW,
  UPDATES,
} from '../../contracts/names.ts';
import { HEAD_ALG, HEAD_TYPE, SEALING } from '../../contracts/crypto.ts';
import { IssuedCall, IssuedClaims, IssuedConsent, IssuedContext } from '../../contracts/schemas/credentials.ts';
import { Config } from '../../contracts/schemas/config.ts';
import { catalogId } from '../../domain/catalog/state.ts';

describe('names on the wire', () => {
  test('workflow types', () =>
    expect([RUN_WORKFLOW, CATALOG_WORKFLOW, TICKET_WORKFLOW, DIGEST_WORKFLOW]).toEqual([
      'agentRun',
      'toolCatalog',
      'callTicket',
      'messageDigest',
    ]));
  test('ids of digests', () => expect(DIGEST_PREFIX).toBe('digest/'));

  test('what names a ticket in its run', () => expect(TICKET_MEMO).toBe('countersignTicket'));
  test('what says that a run dispatches on return', () => expect(DISPATCH_MEMO).toBe('countersignDispatch'));
  test('what names the run in a ticket', () => expect(TICKET_RUN_MEMO).toBe('countersignRun'));

  test('task queue, also of a worker whose configuration names none', () => {
    expect(DEFAULT_TASK_QUEUE).toBe('countersign');
    expect(Config.parse({}).taskQueue).toBe('countersign');
  });

  test('the tool that reads linked resources, which policy names', () => expect(READ_RESOURCE).toBe('resources:read'));

  test('metrics', () => {
    expect(METRICS).toEqual({
      running: 'countersign_server_calls',
      held: 'countersign_server_calls_held',
      breaker: 'countersign_server_breaker',
      refusedQueries: 'countersign_queries_refused',
      messages: 'countersign_messages',
      calls: 'countersign_calls',
      tokens: 'countersign_tokens',
      unverified: 'countersign_payloads_unverified',
    });
    expect(GATEWAY_METRICS).toEqual({
      open: 'countersign_requests_open',
      openByGroup: 'countersign_requests_open_by_group',
      openBySubject: 'countersign_requests_open_by_subject',
      dueSoon: 'countersign_requests_due_soon',
      closed: 'countersign_request_seconds',
      runsEnded: 'countersign_runs_ended',
      runsStuck: 'countersign_runs_stuck',
      answers: 'countersign_answers',
      gateCalls: 'countersign_gate_calls',
      readsFailed: 'countersign_run_reads_failed',
      stale: 'countersign_projection_stale_seconds',
      runs: 'countersign_projection_runs',
      cut: 'countersign_projection_cut',
      streams: 'countersign_streams_open',
      http: 'countersign_http_requests',
      httpSeconds: 'countersign_http_seconds',
    });
    expect(CODEC_METRICS).toEqual({
      payloads: 'countersign_codec_payloads',
      http: 'countersign_codec_http_requests',
      httpSeconds: 'countersign_codec_http_seconds',
    });
  });

  test('updates', () => {
    expect(UPDATES).toEqual({
      decide: 'decide',
      say: 'say',
      advance: 'advance',
      stop: 'stop',
      refreshTrust: 'refreshTrust',
      forget: 'forget',
      resolveOutcome: 'resolveOutcome',
      provideInput: 'provideInput',
      authorize: 'authorize',
      inputAsked: 'inputAsked',
    });
  });

  test('updates of a catalog', () => {
    expect(CATALOG_UPDATES).toEqual({
      connect: 'connect',
      refresh: 'refresh',
      setToolPolicies: 'setToolPolicies',
      disconnect: 'disconnect',
      decide: 'decide',
      refreshTrust: 'refreshTrust',
    });
  });

  test('workflow ids of catalogs', () => {
    expect(catalogId({ tenant: 'acme/eu', server: 'issue.tracker' })).toBe('catalog/acme%2Feu/issue.tracker');
  });

  test('signals', () => {
    expect(SIGNALS).toEqual({
      decide: 'decide',
      nudge: 'nudge',
      delivered: 'delivered',
      present: 'present',
      gather: 'gather',
    });
  });

  test('queries', () => {
    expect(QUERIES).toEqual({
      state: 'state',
      requests: 'requests',
      transcript: 'transcript',
      ledger: 'ledger',
      heldInput: 'heldInput',
      snapshot: 'snapshot',
    });
  });

  test('activities', () => {
    expect(ACTIVITIES).toEqual({
      prepareRun: 'prepareRun',
      readTrust: 'readTrust',
      judge: 'judge',
      modelStep: 'modelStep',
      discoverTools: 'discoverTools',
      callTool: 'callTool',
      resumeCall: 'resumeCall',
      pollTask: 'pollTask',
      storeSegment: 'storeSegment',
      sendMessage: 'sendMessage',
      sendDigest: 'sendDigest',
      stretch: 'stretch',
      reviewChange: 'reviewChange',
      discoverCatalog: 'discoverCatalog',
    });
  });

  test('search attributes and their types', () => {
    expect(Object.fromEntries(Object.values(SEARCH_ATTRIBUTES).map(({ name, type }) => [name, type]))).toEqual({
      CountersignStatus: 'KEYWORD',
      CountersignPending: 'INT',
      CountersignNextDeadline: 'DATETIME',
      CountersignWaitingSince: 'DATETIME',
      CountersignApprovers: 'KEYWORD_LIST',
      CountersignTools: 'KEYWORD_LIST',
      CountersignServers: 'KEYWORD_LIST',
      CountersignInitiator: 'KEYWORD',
      CountersignTenant: 'KEYWORD',
      CountersignRoot: 'KEYWORD',
    });
  });

  test('memo keys', () => {
    expect([PENDING_MEMO, SPEC_HASH_MEMO, TASK_MEMO]).toEqual([
      'countersignPending',
      'countersignSpecHash',
      'countersignTask',
    ]);
  });

  test('the signature of ledger heads', () => {
    expect([HEAD_TYPE, HEAD_ALG]).toEqual(['countersign-ledger-head+jws', 'EdDSA']);
  });

  test('where a worker publishes the keys of its issuer, and that it lives', () => {
    expect(PUBLISHED_PATHS).toEqual({
      alive: '/healthz',
      keys: '/.well-known/jwks.json',
      metadata: '/.well-known/oauth-authorization-server',
    });
  });

  test('what a token of ours says of a call', () => {
    expect(Object.keys(IssuedClaims.shape)).toEqual(
      'iss sub aud exp iat jti client_id scope cnf act countersign'.split(' '),
    );
    expect(Object.keys(IssuedContext.shape)).toEqual(['namespace', 'run', 'tenant', 'trust', 'call']);
    expect(Object.keys(IssuedCall.shape)).toEqual('callId executionId tool definition arguments consent'.split(' '));
    expect(IssuedConsent.options.map(({ shape }) => Object.keys(shape))).toEqual([
      ['kind', 'rules'],
      ['kind', 'digest', 'approvers'],
      ['kind', 'digest', 'approvers', 'callId'],
    ]);
  });

  test('algorithms with which grants are sealed', () => {
    expect(SEALING).toEqual({ alg: 'ECDH-ES+A256KW', enc: 'A256GCM', curve: 'P-256' });
  });
});
