-- A ledger as version 1 of the schema made it. Frozen: never change it, write a new one for a new version.
BEGIN TRANSACTION;
CREATE TABLE attempts (
                id TEXT NOT NULL PRIMARY KEY, decision TEXT NOT NULL, n INTEGER NOT NULL, ts DOUBLE NOT NULL,
                target TEXT NOT NULL, provider TEXT NOT NULL, kind TEXT NOT NULL, purpose TEXT NOT NULL,
                class TEXT NOT NULL, status INTEGER, started_ms BIGINT NOT NULL, duration_ms BIGINT NOT NULL,
                input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, cached_tokens BIGINT NOT NULL,
                usage TEXT NOT NULL, cost_micro_usd BIGINT);
INSERT INTO "attempts" VALUES('dec_1790000001/1','dec_1790000001',1,1790000001.0,'eu','acme','openai_compatible','answer','ok',200,0,0,3,0,0,'estimated',7);
INSERT INTO "attempts" VALUES('dec_1790000002/1','dec_1790000002',1,1790000002.0,'eu','acme','openai_compatible','answer','ok',200,0,0,3,0,0,'estimated',7);
INSERT INTO "attempts" VALUES('dec_1790000003/1','dec_1790000003',1,1790000003.0,'eu','acme','openai_compatible','answer','ok',200,0,0,3,0,0,'estimated',7);
CREATE TABLE decisions (
                id TEXT NOT NULL PRIMARY KEY, ts DOUBLE NOT NULL, principal TEXT, tenant TEXT, route TEXT, session TEXT,
                policy TEXT NOT NULL, outcome TEXT NOT NULL, status INTEGER NOT NULL, code TEXT NOT NULL,
                cost_micro_usd BIGINT NOT NULL, blocked_fallback BOOLEAN NOT NULL, document TEXT NOT NULL);
INSERT INTO "decisions" VALUES('dec_1790000001',1790000001.0,'ci','payments','chat',NULL,'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','answered',200,'ok',7,0,'{"id":"dec_1790000001","ts":1790000001.0,"policy":"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1","principal":"ci","tenant":"payments","route":"chat","session":null,"request_id":null,"attributes":{},"demands":[],"labels":{},"facts":{},"outcome":"answered","status":200,"code":"ok","excluded":[],"shadow":[],"waived":[],"order":[],"rank":{"algorithm":"","reason":"","signals":{}},"attempts":[{"n":1,"target":"eu","provider":"acme","kind":"openai_compatible","purpose":"answer","class":"ok","status":200,"endpoint_dead":false,"evidence":"","started_ms":0,"duration_ms":0,"tokens":{"input":3,"output":0,"cached":0},"usage":"estimated","cost_micro_usd":7}],"cost_micro_usd":7,"blocked_fallback":false}');
INSERT INTO "decisions" VALUES('dec_1790000002',1790000002.0,'batch',NULL,'chat',NULL,'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','answered',200,'ok',7,0,'{"id":"dec_1790000002","ts":1790000002.0,"policy":"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1","principal":"batch","tenant":null,"route":"chat","session":null,"request_id":null,"attributes":{},"demands":[],"labels":{},"facts":{},"outcome":"answered","status":200,"code":"ok","excluded":[],"shadow":[],"waived":[],"order":[],"rank":{"algorithm":"","reason":"","signals":{}},"attempts":[{"n":1,"target":"eu","provider":"acme","kind":"openai_compatible","purpose":"answer","class":"ok","status":200,"endpoint_dead":false,"evidence":"","started_ms":0,"duration_ms":0,"tokens":{"input":3,"output":0,"cached":0},"usage":"estimated","cost_micro_usd":7}],"cost_micro_usd":7,"blocked_fallback":false}');
INSERT INTO "decisions" VALUES('dec_1790000003',1790000003.0,'ci','payments','chat',NULL,'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','answered',200,'ok',7,0,'{"id":"dec_1790000003","ts":1790000003.0,"policy":"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1","principal":"ci","tenant":"payments","route":"chat","session":null,"request_id":null,"attributes":{},"demands":[],"labels":{},"facts":{},"outcome":"answered","status":200,"code":"ok","excluded":[],"shadow":[],"waived":[],"order":[],"rank":{"algorithm":"","reason":"","signals":{}},"attempts":[{"n":1,"target":"eu","provider":"acme","kind":"openai_compatible","purpose":"answer","class":"ok","status":200,"endpoint_dead":false,"evidence":"","started_ms":0,"duration_ms":0,"tokens":{"input":3,"output":0,"cached":0},"usage":"estimated","cost_micro_usd":7}],"cost_micro_usd":7,"blocked_fallback":false}');
CREATE TABLE gaps (
                id TEXT NOT NULL PRIMARY KEY, since DOUBLE NOT NULL, until DOUBLE NOT NULL, count BIGINT,
                reason TEXT NOT NULL);
INSERT INTO "gaps" VALUES('g1',1789000000.0,1789000010.5,12,'queue_full');
INSERT INTO "gaps" VALUES('g2',1789100000.0,1789200000.0,NULL,'not_stopped');
CREATE TABLE policies (digest TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL, first_seen DOUBLE NOT NULL);
INSERT INTO "policies" VALUES('a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','{"routes":{}}',1790000000.5);
CREATE TABLE runs (
                id TEXT NOT NULL PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, started DOUBLE NOT NULL,
                last_ts DOUBLE, stopped DOUBLE);
INSERT INTO "runs" VALUES('r1','gw-1',42,1789990000.0,1790000002.0,1790000002.5);
CREATE TABLE schema_version (version INTEGER NOT NULL PRIMARY KEY);
INSERT INTO "schema_version" VALUES(1);
CREATE INDEX decisions_by_time ON decisions (ts, id);
CREATE INDEX attempts_by_decision ON attempts (decision);
CREATE INDEX attempts_by_time ON attempts (ts);
CREATE INDEX gaps_by_time ON gaps (until);
COMMIT;
