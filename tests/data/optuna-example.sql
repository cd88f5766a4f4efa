-- Written by Optuna 5.0.0 (RDBStorage on SQLite), dumped by sqlite3's .dump: a small study with every
-- kind of value, and one with two objectives. Read by the store's tests.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO studies VALUES(1,'s1');
INSERT INTO studies VALUES(2,'mo');
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO version_info VALUES(1,12,'5.0.0');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO study_directions VALUES(1,'MINIMIZE',1,0);
INSERT INTO study_directions VALUES(2,'MINIMIZE',2,0);
INSERT INTO study_directions VALUES(3,'MAXIMIZE',2,1);
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO study_user_attributes VALUES(1,1,'note','{"a": [1, 2.5, null, true, "\u00e9"], "nan": NaN, "inf": Infinity}');
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO study_system_attributes VALUES(1,1,'study:metric_names','["val_loss"]');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO trials VALUES(1,0,1,'COMPLETE','2026-11-21 01:33:54.740094','2026-11-21 01:33:55.087093');
INSERT INTO trials VALUES(2,1,1,'COMPLETE','2026-11-21 01:33:55.107508','2026-11-21 01:33:55.409052');
INSERT INTO trials VALUES(3,2,1,'PRUNED','2026-11-21 01:33:55.430424','2026-11-21 01:33:55.886262');
INSERT INTO trials VALUES(4,3,1,'FAIL','2026-11-21 01:33:55.910378','2026-11-21 01:33:56.200825');
INSERT INTO trials VALUES(5,4,1,'COMPLETE','2026-11-21 01:33:56.228362','2026-11-21 01:33:56.526037');
INSERT INTO trials VALUES(6,5,1,'FAIL','2026-11-21 01:33:56.550999','2026-11-21 01:33:56.900801');
INSERT INTO trials VALUES(7,6,1,'COMPLETE','2026-11-21 01:33:56.927213','2026-11-21 01:33:57.669803');
INSERT INTO trials VALUES(8,7,1,'COMPLETE','2026-11-21 01:33:57.738063','2026-11-21 01:33:57.827846');
INSERT INTO trials VALUES(9,8,1,'RUNNING','2026-11-21 01:33:57.910323',NULL);
INSERT INTO trials VALUES(10,9,1,'FAIL','2026-11-21 01:33:57.934984','2026-11-21 01:34:01.676601');
INSERT INTO trials VALUES(11,10,1,'COMPLETE','2026-11-21 01:33:58.205524','2026-11-21 01:33:58.205524');
INSERT INTO trials VALUES(12,0,2,'COMPLETE','2026-11-21 01:33:58.253212','2026-11-21 01:33:58.333110');
INSERT INTO trials VALUES(13,1,2,'COMPLETE','2026-11-21 01:33:58.354051','2026-11-21 01:33:58.458852');
INSERT INTO trials VALUES(14,11,1,'WAITING',NULL,NULL);
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO trial_user_attributes VALUES(1,1,'pid','123');
INSERT INTO trial_user_attributes VALUES(2,2,'pid','123');
INSERT INTO trial_user_attributes VALUES(3,3,'pid','123');
INSERT INTO trial_user_attributes VALUES(4,4,'pid','123');
INSERT INTO trial_user_attributes VALUES(5,5,'pid','123');
INSERT INTO trial_user_attributes VALUES(6,6,'pid','123');
INSERT INTO trial_user_attributes VALUES(7,7,'pid','123');
INSERT INTO trial_user_attributes VALUES(8,8,'memo','"seed"');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO trial_system_attributes VALUES(1,1,'constraints:mem','-1.5');
INSERT INTO trial_system_attributes VALUES(2,2,'constraints:mem','-1.5');
INSERT INTO trial_system_attributes VALUES(3,3,'tpe:relative_params:0','"{\"batch\": 483, \"dropout\": 0.16900136583950495, \"layers\": 6, \"lr\": 0.0006277284789137556, \"mom\": 0.86, \"opt\": null, \"width\": 256}"');
INSERT INTO trial_system_attributes VALUES(4,3,'constraints:mem','-1.5');
INSERT INTO trial_system_attributes VALUES(5,4,'tpe:relative_params:0','"{\"batch\": 37, \"dropout\": 0.17641878448063336, \"layers\": 6, \"lr\": 1.7527802217368787e-05, \"mom\": 0.64, \"opt\": null, \"width\": 896}"');
INSERT INTO trial_system_attributes VALUES(6,4,'constraints:mem','-1.5');
INSERT INTO trial_system_attributes VALUES(7,5,'tpe:relative_params:0','"{\"batch\": 44, \"dropout\": 0.4716395348172208, \"layers\": 3, \"lr\": 1.4722884286137737e-05, \"mom\": 0.8500000000000001, \"opt\": 0.5, \"width\": 960}"');
INSERT INTO trial_system_attributes VALUES(8,5,'constraints:mem','-1.5');
INSERT INTO trial_system_attributes VALUES(9,6,'tpe:relative_params:0','"{\"batch\": 472, \"dropout\": 0.35018894180921945, \"layers\": 7, \"lr\": 5.714101190345285e-05, \"mom\": 0.5700000000000001, \"opt\": null, \"width\": 512}"');
INSERT INTO trial_system_attributes VALUES(10,6,'constraints:mem','-1.5');
INSERT INTO trial_system_attributes VALUES(11,7,'tpe:relative_params:0','"{\"batch\": 77, \"dropout\": 0.2069303609488337, \"layers\": 7, \"lr\": 0.00029816698329954773, \"mom\": 0.52, \"opt\": null, \"width\": 448}"');
INSERT INTO trial_system_attributes VALUES(12,7,'constraints:mem','-1.5');
INSERT INTO trial_system_attributes VALUES(13,8,'fixed_params','{"lr": 0.01, "layers": 3}');
INSERT INTO trial_system_attributes VALUES(14,9,'fixed_params','{"lr": 0.02}');
INSERT INTO trial_system_attributes VALUES(15,10,'tpe:relative_params:0','"{\"lr\": 1.102117230925165e-05}"');
INSERT INTO trial_system_attributes VALUES(16,14,'failed_trial','9');
INSERT INTO trial_system_attributes VALUES(17,14,'retry_history','[9]');
INSERT INTO trial_system_attributes VALUES(18,14,'tpe:relative_params:0','"{\"lr\": 1.102117230925165e-05}"');
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO trial_params VALUES(1,1,'lr',0.0015676677195506068338,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO trial_params VALUES(2,1,'dropout',0.35759468318620973859,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO trial_params VALUES(3,1,'mom',0.8000000000000000444,'{"name": "FloatDistribution", "attributes": {"step": 0.01, "low": 0.5, "high": 0.99, "log": false}}');
INSERT INTO trial_params VALUES(4,1,'layers',5.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 8}}');
INSERT INTO trial_params VALUES(5,1,'batch',68.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 16, "high": 512}}');
INSERT INTO trial_params VALUES(6,1,'width',704.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 64, "low": 64, "high": 1024}}');
INSERT INTO trial_params VALUES(7,1,'opt',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adam", "sgd", null, true, 3, 0.5]}}');
INSERT INTO trial_params VALUES(8,2,'lr',0.0018714500686240669122,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO trial_params VALUES(9,2,'dropout',0.46279831914633051681,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO trial_params VALUES(10,2,'mom',0.53000000000000002664,'{"name": "FloatDistribution", "attributes": {"step": 0.01, "low": 0.5, "high": 0.99, "log": false}}');
INSERT INTO trial_params VALUES(11,2,'layers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 8}}');
INSERT INTO trial_params VALUES(12,2,'batch',17.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 16, "high": 512}}');
INSERT INTO trial_params VALUES(13,2,'width',896.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 64, "low": 64, "high": 1024}}');
INSERT INTO trial_params VALUES(14,2,'opt',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adam", "sgd", null, true, 3, 0.5]}}');
INSERT INTO trial_params VALUES(15,3,'lr',0.00062772847891375558107,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO trial_params VALUES(16,3,'dropout',0.16900136583950495228,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO trial_params VALUES(17,3,'mom',0.85999999999999998667,'{"name": "FloatDistribution", "attributes": {"step": 0.01, "low": 0.5, "high": 0.99, "log": false}}');
INSERT INTO trial_params VALUES(18,3,'layers',6.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 8}}');
INSERT INTO trial_params VALUES(19,3,'batch',483.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 16, "high": 512}}');
INSERT INTO trial_params VALUES(20,3,'width',256.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 64, "low": 64, "high": 1024}}');
INSERT INTO trial_params VALUES(21,3,'opt',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adam", "sgd", null, true, 3, 0.5]}}');
INSERT INTO trial_params VALUES(22,4,'lr',1.7527802217368787155e-05,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO trial_params VALUES(23,4,'dropout',0.17641878448063336159,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO trial_params VALUES(24,4,'mom',0.64000000000000001332,'{"name": "FloatDistribution", "attributes": {"step": 0.01, "low": 0.5, "high": 0.99, "log": false}}');
INSERT INTO trial_params VALUES(25,4,'layers',6.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 8}}');
INSERT INTO trial_params VALUES(26,4,'batch',37.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 16, "high": 512}}');
INSERT INTO trial_params VALUES(27,4,'width',896.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 64, "low": 64, "high": 1024}}');
INSERT INTO trial_params VALUES(28,4,'opt',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adam", "sgd", null, true, 3, 0.5]}}');
INSERT INTO trial_params VALUES(29,5,'lr',1.4722884286137736936e-05,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO trial_params VALUES(30,5,'dropout',0.47163953481722081795,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO trial_params VALUES(31,5,'mom',0.85000000000000008881,'{"name": "FloatDistribution", "attributes": {"step": 0.01, "low": 0.5, "high": 0.99, "log": false}}');
INSERT INTO trial_params VALUES(32,5,'layers',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 8}}');
INSERT INTO trial_params VALUES(33,5,'batch',44.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 16, "high": 512}}');
INSERT INTO trial_params VALUES(34,5,'width',960.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 64, "low": 64, "high": 1024}}');
INSERT INTO trial_params VALUES(35,5,'opt',5.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adam", "sgd", null, true, 3, 0.5]}}');
INSERT INTO trial_params VALUES(36,6,'lr',5.7141011903452846947e-05,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO trial_params VALUES(37,6,'dropout',0.35018894180921944503,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO trial_params VALUES(38,6,'mom',0.57000000000000006217,'{"name": "FloatDistribution", "attributes": {"step": 0.01, "low": 0.5, "high": 0.99, "log": false}}');
INSERT INTO trial_params VALUES(39,6,'layers',7.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 8}}');
INSERT INTO trial_params VALUES(40,6,'batch',472.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 16, "high": 512}}');
INSERT INTO trial_params VALUES(41,6,'width',512.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 64, "low": 64, "high": 1024}}');
INSERT INTO trial_params VALUES(42,6,'opt',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adam", "sgd", null, true, 3, 0.5]}}');
INSERT INTO trial_params VALUES(43,7,'lr',0.00029816698329954773342,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO trial_params VALUES(44,7,'dropout',0.20693036094883371367,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO trial_params VALUES(45,7,'mom',0.52000000000000001776,'{"name": "FloatDistribution", "attributes": {"step": 0.01, "low": 0.5, "high": 0.99, "log": false}}');
INSERT INTO trial_params VALUES(46,7,'layers',7.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 8}}');
INSERT INTO trial_params VALUES(47,7,'batch',77.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 16, "high": 512}}');
INSERT INTO trial_params VALUES(48,7,'width',448.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 64, "low": 64, "high": 1024}}');
INSERT INTO trial_params VALUES(49,7,'opt',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adam", "sgd", null, true, 3, 0.5]}}');
INSERT INTO trial_params VALUES(50,8,'lr',0.010000000000000000208,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO trial_params VALUES(51,10,'lr',1.1021172309251649955e-05,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO trial_params VALUES(52,10,'dropout',0.0075871648767892874154,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO trial_params VALUES(53,10,'mom',0.5,'{"name": "FloatDistribution", "attributes": {"step": 0.01, "low": 0.5, "high": 0.99, "log": false}}');
INSERT INTO trial_params VALUES(54,10,'layers',8.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 8}}');
INSERT INTO trial_params VALUES(55,10,'batch',286.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 16, "high": 512}}');
INSERT INTO trial_params VALUES(56,10,'width',64.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 64, "low": 64, "high": 1024}}');
INSERT INTO trial_params VALUES(57,10,'opt',4.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adam", "sgd", null, true, 3, 0.5]}}');
INSERT INTO trial_params VALUES(58,11,'x',1.0,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 2.0, "log": false}}');
INSERT INTO trial_params VALUES(59,12,'a',0.54653926790388329681,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO trial_params VALUES(60,12,'b',0.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 3}}');
INSERT INTO trial_params VALUES(61,13,'a',0.88541940378069738937,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO trial_params VALUES(62,13,'b',2.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 3}}');
INSERT INTO trial_params VALUES(63,14,'lr',1.1021172309251649955e-05,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO trial_params VALUES(64,14,'dropout',0.0075871648767892874154,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO trial_params VALUES(65,14,'mom',0.5,'{"name": "FloatDistribution", "attributes": {"step": 0.01, "low": 0.5, "high": 0.99, "log": false}}');
INSERT INTO trial_params VALUES(66,14,'layers',8.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 8}}');
INSERT INTO trial_params VALUES(67,14,'batch',286.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 16, "high": 512}}');
INSERT INTO trial_params VALUES(68,14,'width',64.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 64, "low": 64, "high": 1024}}');
INSERT INTO trial_params VALUES(69,14,'opt',4.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adam", "sgd", null, true, 3, 0.5]}}');
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO trial_values VALUES(1,1,0,0.0015676677195506068338,'FINITE');
INSERT INTO trial_values VALUES(2,2,0,0.0018714500686240669122,'FINITE');
INSERT INTO trial_values VALUES(3,5,0,NULL,'INF_POS');
INSERT INTO trial_values VALUES(4,7,0,0.00029816698329954773342,'FINITE');
INSERT INTO trial_values VALUES(5,8,0,0.5,'FINITE');
INSERT INTO trial_values VALUES(6,11,0,NULL,'INF_NEG');
INSERT INTO trial_values VALUES(7,12,0,0.54653926790388329681,'FINITE');
INSERT INTO trial_values VALUES(8,12,1,0.0,'FINITE');
INSERT INTO trial_values VALUES(9,13,0,0.88541940378069738937,'FINITE');
INSERT INTO trial_values VALUES(10,13,1,2.0,'FINITE');
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO trial_intermediate_values VALUES(1,1,0,1.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(2,1,1,2.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(3,1,2,3.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(4,1,3,4.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(5,2,0,5.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(6,2,1,6.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(7,2,2,7.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(8,2,3,8.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(9,3,0,NULL,'NAN');
INSERT INTO trial_intermediate_values VALUES(10,3,1,NULL,'NAN');
INSERT INTO trial_intermediate_values VALUES(11,3,2,NULL,'NAN');
INSERT INTO trial_intermediate_values VALUES(12,4,0,NULL,'INF_POS');
INSERT INTO trial_intermediate_values VALUES(13,5,0,NULL,'INF_NEG');
INSERT INTO trial_intermediate_values VALUES(14,5,1,NULL,'INF_NEG');
INSERT INTO trial_intermediate_values VALUES(15,5,2,NULL,'INF_NEG');
INSERT INTO trial_intermediate_values VALUES(16,5,3,NULL,'INF_NEG');
INSERT INTO trial_intermediate_values VALUES(17,6,0,9.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(18,6,1,9.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(19,6,2,9.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(20,6,3,9.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(21,7,0,9.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(22,7,1,9.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(23,7,2,9.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(24,7,3,9.0,'FINITE');
INSERT INTO trial_intermediate_values VALUES(25,10,1,3.25,'FINITE');
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO trial_heartbeats VALUES(1,1,'2026-11-21 01:33:54');
INSERT INTO trial_heartbeats VALUES(2,2,'2026-11-21 01:33:55');
INSERT INTO trial_heartbeats VALUES(3,3,'2026-11-21 01:33:55');
INSERT INTO trial_heartbeats VALUES(4,4,'2026-11-21 01:33:55');
INSERT INTO trial_heartbeats VALUES(5,5,'2026-11-21 01:33:56');
INSERT INTO trial_heartbeats VALUES(6,6,'2026-11-21 01:33:56');
INSERT INTO trial_heartbeats VALUES(7,7,'2026-11-21 01:33:57');
INSERT INTO trial_heartbeats VALUES(8,10,'2026-11-21 01:33:58');
INSERT INTO trial_heartbeats VALUES(9,12,'2026-11-21 01:33:58');
INSERT INTO trial_heartbeats VALUES(10,13,'2026-11-21 01:33:58');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version VALUES('v3.2.0.a');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
