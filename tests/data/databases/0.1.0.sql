BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'kept');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MINIMIZE',1,0);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_system_attributes" VALUES(1,1,'study:metric_names','["loss"]');
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_user_attributes" VALUES(1,1,'task','"kept"');
INSERT INTO "study_user_attributes" VALUES(2,1,'task_kind','"synthetic"');
INSERT INTO "study_user_attributes" VALUES(3,1,'metric','"loss"');
INSERT INTO "study_user_attributes" VALUES(4,1,'task_file','"/project/configs/kept.toml"');
INSERT INTO "study_user_attributes" VALUES(5,1,'trials_goal','12');
INSERT INTO "study_user_attributes" VALUES(6,1,'sampler','"auto"');
INSERT INTO "study_user_attributes" VALUES(7,1,'sampler_plan','"starts with 8 spread-out points, then mostly a Gaussian process; one trial in 5 comes from TPE, because no model is right everywhere; some trials try a choice that is not the best so far; from 300 trials on more and more come from TPE, which costs less time; trials that cannot be run (infeasible) teach it where not to search; a trial that still runs counts with the value that is expected of it"');
INSERT INTO "study_user_attributes" VALUES(8,1,'baseline','{"value": 2.302585092994046, "what": "an untrained model"}');
INSERT INTO "study_user_attributes" VALUES(9,1,'injected_faults','["abort:0.2"]');
INSERT INTO "study_user_attributes" VALUES(10,1,'selection','{"repeats": 2, "trials": 12, "winner": {"number": 0, "value": 0.08650915680466914, "mean": 0.13183996081052457, "low": -0.28825349221373986, "high": 0.551933413834789, "values": [0.16490203258938188, 0.09877788903166725], "missing": 0, "finalist": true, "params": {"model.layers": 2, "optim.lr": 0.01, "optim.name": "adam"}}, "naive": {"number": 0, "value": 0.08650915680466914, "mean": 0.13183996081052457, "optimism": 0.04533080400585543}, "missing": 0, "candidates": [{"number": 0, "value": 0.08650915680466914, "mean": 0.13183996081052457, "low": -0.28825349221373986, "high": 0.551933413834789, "values": [0.16490203258938188, 0.09877788903166725], "missing": 0, "finalist": true, "params": {"model.layers": 2, "optim.lr": 0.01, "optim.name": "adam"}}, {"number": 7, "value": 0.0986235120929447, "mean": 0.18524012058483863, "low": -0.21969912821137033, "high": 0.5901793693810475, "values": [0.15337071054429813, 0.21710953062537913], "missing": 0, "finalist": true, "params": {"model.layers": 2, "optim.lr": 0.010098033737999675, "optim.name": "adam"}}, {"number": 2, "value": 0.1799453026577551, "mean": 0.23799450637867467, "low": 0.1572304511297603, "high": 0.31875856162758903, "values": [0.23163823738050732, 0.24435077537684202], "missing": 0, "finalist": true, "params": {"model.layers": 7, "optim.lr": 0.002734268317629055, "optim.name": "adam"}}, {"number": 10, "value": 0.23930942090585247, "mean": 0.2539337833172402, "low": -0.5510937335987061, "high": 1.0589613002331866, "values": [0.19057674369517077, 0.31729082293930966], "missing": 0, "finalist": true, "params": {"model.layers": 6, "optim.lr": 0.03651496974974377, "optim.name": "adam"}}, {"number": 4, "value": 0.2756877851151314, "mean": 0.19698269594717388, "low": -0.365383646970705, "high": 0.7593490388650528, "values": [0.15272350489881809, 0.24124188699552968], "missing": 0, "finalist": true, "params": {"model.layers": 5, "optim.lr": 0.09185787774442297, "optim.momentum": 0.7500599455833435, "optim.name": "sgd"}}, {"number": 8, "value": 0.4090794145916605, "mean": 0.41864626714753916, "low": 0.33356625007515184, "high": 0.5037262842199265, "values": [0.42534220970780373, 0.4119503245872746], "missing": 0, "finalist": true, "params": {"model.layers": 6, "optim.lr": 0.0011301798354581753, "optim.momentum": 0.47360017776489255, "optim.name": "sgd"}}, {"number": 3, "value": 0.40982787411582944, "mean": 0.4029612998398988, "low": -0.34902840290801984, "high": 1.1549510025878176, "values": [0.3437784267191001, 0.46214417296069754], "missing": 0, "finalist": true, "params": {"model.layers": 1, "optim.lr": 0.020261128567825228, "optim.momentum": 0.4032057523727417, "optim.name": "sgd"}}, {"number": 6, "value": 0.9710629105635782, "mean": 0.9088389099978267, "low": -0.1023804371035193, "high": 1.9200582570991727, "values": [0.988423598588779, 0.8292542214068744], "missing": 0, "finalist": true, "params": {"model.layers": 8, "optim.lr": 0.00024366606167692382, "optim.momentum": 0.6265962553024292, "optim.name": "sgd"}}]}');
INSERT INTO "study_user_attributes" VALUES(11,1,'test','{"number": 0, "metric": "loss", "value": 0.04861470519431796, "validation": 0.15454822746548028, "baseline": {"value": 2.302585092994046, "what": "an untrained model"}, "looks": 1, "error": null}');
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
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
INSERT INTO "trial_intermediate_values" VALUES(1,1,1,9.24551247103142292971e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(2,1,2,3.86668647891274253058e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(3,1,3,4.24087707774578548391e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(4,1,4,2.08470521249674384245e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(5,1,5,8.65091568046691405946e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(6,1,6,1.42817270728204687157e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(7,2,1,2.20807322931212146599e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(8,2,2,2.3306081192351,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(9,2,3,2.46198077401104686856e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(10,2,4,2.41084617497088071758e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(11,2,5,2.35065630159744820559e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(12,2,6,2.42421165882050582141e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(13,3,1,1.13900641878601627254e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(14,3,2,3.30621979374051355726e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(15,3,3,2.1499679819720868279e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(16,3,4,3.67249790955392174662e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(17,3,5,3.43182736012684952431e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(18,3,6,1.79945302657755101805e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(19,4,1,1.2926852978996681287e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(20,4,2,0.75570662389998,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(21,4,3,5.75481192778026229284e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(22,4,4,5.53161490401948618966e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(23,4,5,4.09827874115829438039e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(24,5,1,1.38311641370542171003e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(25,5,2,7.03478937129479842127e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(26,5,3,4.28341865875681071518e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(27,5,4,2.7568778511513142293e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(28,5,5,4.03650352699881753704e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(29,5,6,3.88650525930204215896e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(30,4,6,5.30316543975638432506e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(34,7,1,1.76081216812473950739e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(35,7,2,1.43353453673571595849e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(36,7,3,1.24911804331597031669e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(37,7,4,1.24939028155422859889e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(38,7,5,9.71062910563578185474e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(39,7,6,1.09618369625823608437e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(40,8,1,8.29492790858374573481e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(41,8,2,4.42625108317246052092e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(42,8,3,1.48151350291767042177e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(43,8,4,0.0986235120929447,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(44,8,5,1.65535977088868663242e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(45,8,6,2.24126024280163538282e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(46,6,1,1.9191173038048516819e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(47,6,2,1.69894502164087168871e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(48,6,3,1.19322397010385472526e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(49,6,4,1.37535892984676,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(50,6,5,1.22421213448611587715e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(51,6,6,1.10449319161179349002e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(52,9,1,1.30944578293399849222e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(53,9,2,8.79628393501761474126e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(54,9,3,6.56920542568098730917e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(55,9,4,4.09079414591660472932e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(56,9,5,5.38422937790873246122e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(57,9,6,0.643971745627582,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(58,11,1,9.1150192272840868668e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(59,11,2,5.40439699998384592838e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(60,11,3,2.39309420905852471284e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(61,11,4,2.69610788058240125053e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(62,11,5,2.5777695689224261466e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(63,11,6,3.60822213114484313667e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(64,12,1,1.31910739207594662758e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(65,12,2,5.31560466470737291722e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(66,12,3,5.39997558587684389763e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(67,12,4,3.95291967339481187249e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(68,12,5,3.67161039899072894066e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(69,10,1,1.83908572744340093052e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(70,10,2,1.39979184039689052987e+00,'FINITE');
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
INSERT INTO "trial_params" VALUES(1,1,'model.layers',2.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(2,1,'optim.lr',0.01,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(3,1,'optim.name',0.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
INSERT INTO "trial_params" VALUES(4,2,'model.layers',3.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(5,2,'optim.lr',4.1230526230442437357e-05,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(6,2,'optim.momentum',6.8751153945922849342e-02,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.0,"high":0.99,"log":false}}');
INSERT INTO "trial_params" VALUES(7,2,'optim.name',1.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
INSERT INTO "trial_params" VALUES(8,3,'model.layers',7.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(9,3,'optim.lr',2.73426831762905520398e-03,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(10,3,'optim.name',0.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
INSERT INTO "trial_params" VALUES(11,4,'model.layers',1.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(12,4,'optim.lr',2.02611285678252275865e-02,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(13,4,'optim.momentum',4.03205752372741699218e-01,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.0,"high":0.99,"log":false}}');
INSERT INTO "trial_params" VALUES(14,4,'optim.name',1.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
INSERT INTO "trial_params" VALUES(15,5,'model.layers',5.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(16,5,'optim.lr',9.18578777444229721549e-02,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(17,5,'optim.momentum',7.50059945583343545827e-01,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.0,"high":0.99,"log":false}}');
INSERT INTO "trial_params" VALUES(18,5,'optim.name',1.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
INSERT INTO "trial_params" VALUES(19,6,'model.layers',4.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(20,6,'optim.lr',1.55187272104297146243e-04,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(21,6,'optim.name',0.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
INSERT INTO "trial_params" VALUES(22,7,'model.layers',8.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(23,7,'optim.lr',2.4366606167692381646e-04,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(24,7,'optim.momentum',6.26596255302429239186e-01,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.0,"high":0.99,"log":false}}');
INSERT INTO "trial_params" VALUES(25,7,'optim.name',1.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
INSERT INTO "trial_params" VALUES(26,8,'model.layers',2.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(27,8,'optim.lr',1.0098033737999674575e-02,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(28,8,'optim.name',0.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
INSERT INTO "trial_params" VALUES(29,9,'model.layers',6.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(30,9,'optim.lr',1.13017983545817533343e-03,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(31,9,'optim.momentum',4.73600177764892549259e-01,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.0,"high":0.99,"log":false}}');
INSERT INTO "trial_params" VALUES(32,9,'optim.name',1.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
INSERT INTO "trial_params" VALUES(33,10,'model.layers',5.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(34,10,'optim.lr',0.700762080071523,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(35,10,'optim.momentum',9.79484928686838673961e-01,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.0,"high":0.99,"log":false}}');
INSERT INTO "trial_params" VALUES(36,10,'optim.name',1.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
INSERT INTO "trial_params" VALUES(37,11,'model.layers',6.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(38,11,'optim.lr',3.65149697497437683568e-02,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(39,11,'optim.name',0.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
INSERT INTO "trial_params" VALUES(40,12,'model.layers',1.0,'{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":8}}');
INSERT INTO "trial_params" VALUES(41,12,'optim.lr',5.37010941931029533308e-03,'{"name":"FloatDistribution","attributes":{"step":null,"low":0.00001,"high":1.0,"log":true}}');
INSERT INTO "trial_params" VALUES(42,12,'optim.name',0.0,'{"name":"CategoricalDistribution","attributes":{"choices":["adam","sgd"]}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_system_attributes" VALUES(1,2,'sampler','"spread"');
INSERT INTO "trial_system_attributes" VALUES(2,3,'sampler','"spread"');
INSERT INTO "trial_system_attributes" VALUES(3,4,'sampler','"spread"');
INSERT INTO "trial_system_attributes" VALUES(4,5,'sampler','"spread"');
INSERT INTO "trial_system_attributes" VALUES(5,6,'sampler','"spread"');
INSERT INTO "trial_system_attributes" VALUES(6,7,'sampler','"spread"');
INSERT INTO "trial_system_attributes" VALUES(7,8,'sampler','"spread"');
INSERT INTO "trial_system_attributes" VALUES(8,9,'sampler','"spread"');
INSERT INTO "trial_system_attributes" VALUES(9,10,'sampler','"gp-challenger"');
INSERT INTO "trial_system_attributes" VALUES(10,11,'sampler','"gp"');
INSERT INTO "trial_system_attributes" VALUES(11,12,'sampler','"gp"');
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'seed','3232082513601486396');
INSERT INTO "trial_user_attributes" VALUES(2,2,'seed','8117431097712849286');
INSERT INTO "trial_user_attributes" VALUES(3,1,'attempts','1');
INSERT INTO "trial_user_attributes" VALUES(4,1,'runtime_s','0.004');
INSERT INTO "trial_user_attributes" VALUES(5,1,'worker','0');
INSERT INTO "trial_user_attributes" VALUES(6,1,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(7,1,'peak_memory_mb','17.707');
INSERT INTO "trial_user_attributes" VALUES(8,1,'best_epoch','5');
INSERT INTO "trial_user_attributes" VALUES(9,1,'last_value','0.1428172707282047');
INSERT INTO "trial_user_attributes" VALUES(10,1,'metric.accuracy','0.9171271507920797');
INSERT INTO "trial_user_attributes" VALUES(11,1,'metric.cost','0.128');
INSERT INTO "trial_user_attributes" VALUES(12,3,'seed','7538032122336298482');
INSERT INTO "trial_user_attributes" VALUES(13,2,'attempts','1');
INSERT INTO "trial_user_attributes" VALUES(14,2,'runtime_s','0.002');
INSERT INTO "trial_user_attributes" VALUES(15,2,'worker','1');
INSERT INTO "trial_user_attributes" VALUES(16,2,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(17,2,'peak_memory_mb','17.848');
INSERT INTO "trial_user_attributes" VALUES(18,2,'best_epoch','1');
INSERT INTO "trial_user_attributes" VALUES(19,2,'last_value','2.424211658820506');
INSERT INTO "trial_user_attributes" VALUES(20,2,'metric.accuracy','0.109912220269185');
INSERT INTO "trial_user_attributes" VALUES(21,2,'metric.cost','0.192');
INSERT INTO "trial_user_attributes" VALUES(22,4,'seed','3352807568862935469');
INSERT INTO "trial_user_attributes" VALUES(23,3,'attempts','1');
INSERT INTO "trial_user_attributes" VALUES(24,3,'runtime_s','0.003');
INSERT INTO "trial_user_attributes" VALUES(25,3,'worker','0');
INSERT INTO "trial_user_attributes" VALUES(26,3,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(27,3,'peak_memory_mb','17.879');
INSERT INTO "trial_user_attributes" VALUES(28,3,'best_epoch','6');
INSERT INTO "trial_user_attributes" VALUES(29,3,'last_value','0.1799453026577551');
INSERT INTO "trial_user_attributes" VALUES(30,3,'metric.accuracy','0.8353158997213957');
INSERT INTO "trial_user_attributes" VALUES(31,3,'metric.cost','0.448');
INSERT INTO "trial_user_attributes" VALUES(32,5,'seed','5250398445678855735');
INSERT INTO "trial_user_attributes" VALUES(33,5,'attempts','1');
INSERT INTO "trial_user_attributes" VALUES(34,5,'runtime_s','0.013');
INSERT INTO "trial_user_attributes" VALUES(35,5,'worker','0');
INSERT INTO "trial_user_attributes" VALUES(36,5,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(37,5,'peak_memory_mb','17.887');
INSERT INTO "trial_user_attributes" VALUES(38,5,'best_epoch','4');
INSERT INTO "trial_user_attributes" VALUES(39,5,'last_value','0.3886505259302042');
INSERT INTO "trial_user_attributes" VALUES(40,5,'metric.accuracy','0.7590498804407395');
INSERT INTO "trial_user_attributes" VALUES(41,5,'metric.cost','0.32');
INSERT INTO "trial_user_attributes" VALUES(42,6,'seed','4589526599027574057');
INSERT INTO "trial_user_attributes" VALUES(43,4,'attempts','1');
INSERT INTO "trial_user_attributes" VALUES(44,4,'runtime_s','0.023');
INSERT INTO "trial_user_attributes" VALUES(45,4,'worker','1');
INSERT INTO "trial_user_attributes" VALUES(46,4,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(47,4,'peak_memory_mb','17.973');
INSERT INTO "trial_user_attributes" VALUES(48,4,'best_epoch','5');
INSERT INTO "trial_user_attributes" VALUES(49,4,'last_value','0.5303165439756384');
INSERT INTO "trial_user_attributes" VALUES(50,4,'metric.accuracy','0.6637644913540574');
INSERT INTO "trial_user_attributes" VALUES(51,4,'metric.cost','0.064');
INSERT INTO "trial_user_attributes" VALUES(52,7,'seed','8271174753024194171');
INSERT INTO "trial_user_attributes" VALUES(53,7,'attempts','1');
INSERT INTO "trial_user_attributes" VALUES(54,7,'runtime_s','0.077');
INSERT INTO "trial_user_attributes" VALUES(55,7,'worker','1');
INSERT INTO "trial_user_attributes" VALUES(56,7,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(57,7,'peak_memory_mb','17.977');
INSERT INTO "trial_user_attributes" VALUES(58,7,'best_epoch','5');
INSERT INTO "trial_user_attributes" VALUES(59,7,'last_value','1.096183696258236');
INSERT INTO "trial_user_attributes" VALUES(60,7,'metric.accuracy','0.37868032080187747');
INSERT INTO "trial_user_attributes" VALUES(61,7,'metric.cost','0.512');
INSERT INTO "trial_user_attributes" VALUES(62,8,'seed','6130185001618980906');
INSERT INTO "trial_user_attributes" VALUES(63,8,'attempts','1');
INSERT INTO "trial_user_attributes" VALUES(64,8,'runtime_s','0.001');
INSERT INTO "trial_user_attributes" VALUES(65,8,'worker','1');
INSERT INTO "trial_user_attributes" VALUES(66,8,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(67,8,'peak_memory_mb','18.031');
INSERT INTO "trial_user_attributes" VALUES(68,8,'best_epoch','4');
INSERT INTO "trial_user_attributes" VALUES(69,8,'last_value','0.22412602428016354');
INSERT INTO "trial_user_attributes" VALUES(70,8,'metric.accuracy','0.906083773399489');
INSERT INTO "trial_user_attributes" VALUES(71,8,'metric.cost','0.128');
INSERT INTO "trial_user_attributes" VALUES(72,9,'seed','2792085277617106512');
INSERT INTO "trial_user_attributes" VALUES(73,6,'attempts','2');
INSERT INTO "trial_user_attributes" VALUES(74,6,'runtime_s','0.002');
INSERT INTO "trial_user_attributes" VALUES(75,6,'worker','2');
INSERT INTO "trial_user_attributes" VALUES(76,6,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(77,6,'peak_memory_mb','17.387');
INSERT INTO "trial_user_attributes" VALUES(78,6,'best_epoch','6');
INSERT INTO "trial_user_attributes" VALUES(79,6,'last_value','1.1044931916117935');
INSERT INTO "trial_user_attributes" VALUES(80,6,'metric.accuracy','0.3313787852390963');
INSERT INTO "trial_user_attributes" VALUES(81,6,'metric.cost','0.256');
INSERT INTO "trial_user_attributes" VALUES(82,9,'attempts','1');
INSERT INTO "trial_user_attributes" VALUES(83,9,'runtime_s','0.001');
INSERT INTO "trial_user_attributes" VALUES(84,9,'worker','1');
INSERT INTO "trial_user_attributes" VALUES(85,9,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(86,9,'peak_memory_mb','18.031');
INSERT INTO "trial_user_attributes" VALUES(87,9,'best_epoch','4');
INSERT INTO "trial_user_attributes" VALUES(88,9,'last_value','0.643971745627582');
INSERT INTO "trial_user_attributes" VALUES(89,9,'metric.accuracy','0.664261478173475');
INSERT INTO "trial_user_attributes" VALUES(90,9,'metric.cost','0.384');
INSERT INTO "trial_user_attributes" VALUES(91,10,'seed','7223250731844314436');
INSERT INTO "trial_user_attributes" VALUES(92,11,'seed','4383698957952707023');
INSERT INTO "trial_user_attributes" VALUES(93,11,'attempts','1');
INSERT INTO "trial_user_attributes" VALUES(94,11,'runtime_s','0.002');
INSERT INTO "trial_user_attributes" VALUES(95,11,'worker','3');
INSERT INTO "trial_user_attributes" VALUES(96,11,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(97,11,'peak_memory_mb','17.727');
INSERT INTO "trial_user_attributes" VALUES(98,11,'best_epoch','3');
INSERT INTO "trial_user_attributes" VALUES(99,11,'last_value','0.3608222131144843');
INSERT INTO "trial_user_attributes" VALUES(100,11,'metric.accuracy','0.787171277436676');
INSERT INTO "trial_user_attributes" VALUES(101,11,'metric.cost','0.384');
INSERT INTO "trial_user_attributes" VALUES(102,12,'seed','4072399931248895563');
INSERT INTO "trial_user_attributes" VALUES(103,12,'attempts','1');
INSERT INTO "trial_user_attributes" VALUES(104,12,'runtime_s','0.013');
INSERT INTO "trial_user_attributes" VALUES(105,12,'worker','3');
INSERT INTO "trial_user_attributes" VALUES(106,12,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(107,12,'peak_memory_mb','17.852');
INSERT INTO "trial_user_attributes" VALUES(108,12,'best_epoch','5');
INSERT INTO "trial_user_attributes" VALUES(109,12,'last_value','0.3671610398990729');
INSERT INTO "trial_user_attributes" VALUES(110,12,'metric.accuracy','0.6926980840322052');
INSERT INTO "trial_user_attributes" VALUES(111,12,'metric.cost','0.064');
INSERT INTO "trial_user_attributes" VALUES(112,10,'attempts','2');
INSERT INTO "trial_user_attributes" VALUES(113,10,'runtime_s','0.005');
INSERT INTO "trial_user_attributes" VALUES(114,10,'worker','4');
INSERT INTO "trial_user_attributes" VALUES(115,10,'device','"cpu"');
INSERT INTO "trial_user_attributes" VALUES(116,10,'peak_memory_mb','16.91');
INSERT INTO "trial_user_attributes" VALUES(117,10,'best_epoch','2');
INSERT INTO "trial_user_attributes" VALUES(118,10,'last_value','1.3997918403968905');
INSERT INTO "trial_user_attributes" VALUES(119,10,'metric.accuracy','0.24664830081069433');
INSERT INTO "trial_user_attributes" VALUES(120,10,'metric.cost','0.32');
INSERT INTO "trial_user_attributes" VALUES(121,1,'repeats.mean','0.13183996081052457');
INSERT INTO "trial_user_attributes" VALUES(122,1,'repeats.low','-0.28825349221373986');
INSERT INTO "trial_user_attributes" VALUES(123,1,'repeats.high','0.551933413834789');
INSERT INTO "trial_user_attributes" VALUES(124,1,'repeats.values','[0.16490203258938188, 0.09877788903166725]');
INSERT INTO "trial_user_attributes" VALUES(125,1,'repeats.missing','0');
INSERT INTO "trial_user_attributes" VALUES(126,8,'repeats.mean','0.18524012058483863');
INSERT INTO "trial_user_attributes" VALUES(127,8,'repeats.low','-0.21969912821137033');
INSERT INTO "trial_user_attributes" VALUES(128,8,'repeats.high','0.5901793693810475');
INSERT INTO "trial_user_attributes" VALUES(129,8,'repeats.values','[0.15337071054429813, 0.21710953062537913]');
INSERT INTO "trial_user_attributes" VALUES(130,8,'repeats.missing','0');
INSERT INTO "trial_user_attributes" VALUES(131,3,'repeats.mean','0.23799450637867467');
INSERT INTO "trial_user_attributes" VALUES(132,3,'repeats.low','0.1572304511297603');
INSERT INTO "trial_user_attributes" VALUES(133,3,'repeats.high','0.31875856162758903');
INSERT INTO "trial_user_attributes" VALUES(134,3,'repeats.values','[0.23163823738050732, 0.24435077537684202]');
INSERT INTO "trial_user_attributes" VALUES(135,3,'repeats.missing','0');
INSERT INTO "trial_user_attributes" VALUES(136,11,'repeats.mean','0.2539337833172402');
INSERT INTO "trial_user_attributes" VALUES(137,11,'repeats.low','-0.5510937335987061');
INSERT INTO "trial_user_attributes" VALUES(138,11,'repeats.high','1.0589613002331866');
INSERT INTO "trial_user_attributes" VALUES(139,11,'repeats.values','[0.19057674369517077, 0.31729082293930966]');
INSERT INTO "trial_user_attributes" VALUES(140,11,'repeats.missing','0');
INSERT INTO "trial_user_attributes" VALUES(141,5,'repeats.mean','0.19698269594717388');
INSERT INTO "trial_user_attributes" VALUES(142,5,'repeats.low','-0.365383646970705');
INSERT INTO "trial_user_attributes" VALUES(143,5,'repeats.high','0.7593490388650528');
INSERT INTO "trial_user_attributes" VALUES(144,5,'repeats.values','[0.15272350489881809, 0.24124188699552968]');
INSERT INTO "trial_user_attributes" VALUES(145,5,'repeats.missing','0');
INSERT INTO "trial_user_attributes" VALUES(146,9,'repeats.mean','0.41864626714753916');
INSERT INTO "trial_user_attributes" VALUES(147,9,'repeats.low','0.33356625007515184');
INSERT INTO "trial_user_attributes" VALUES(148,9,'repeats.high','0.5037262842199265');
INSERT INTO "trial_user_attributes" VALUES(149,9,'repeats.values','[0.42534220970780373, 0.4119503245872746]');
INSERT INTO "trial_user_attributes" VALUES(150,9,'repeats.missing','0');
INSERT INTO "trial_user_attributes" VALUES(151,4,'repeats.mean','0.4029612998398988');
INSERT INTO "trial_user_attributes" VALUES(152,4,'repeats.low','-0.34902840290801984');
INSERT INTO "trial_user_attributes" VALUES(153,4,'repeats.high','1.1549510025878176');
INSERT INTO "trial_user_attributes" VALUES(154,4,'repeats.values','[0.3437784267191001, 0.46214417296069754]');
INSERT INTO "trial_user_attributes" VALUES(155,4,'repeats.missing','0');
INSERT INTO "trial_user_attributes" VALUES(156,7,'repeats.mean','0.9088389099978267');
INSERT INTO "trial_user_attributes" VALUES(157,7,'repeats.low','-0.1023804371035193');
INSERT INTO "trial_user_attributes" VALUES(158,7,'repeats.high','1.9200582570991727');
INSERT INTO "trial_user_attributes" VALUES(159,7,'repeats.values','[0.988423598588779, 0.8292542214068744]');
INSERT INTO "trial_user_attributes" VALUES(160,7,'repeats.missing','0');
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
INSERT INTO "trial_values" VALUES(1,1,0,8.65091568046691405946e-02,'FINITE');
INSERT INTO "trial_values" VALUES(2,2,0,2.20807322931212146599e+00,'FINITE');
INSERT INTO "trial_values" VALUES(3,3,0,1.79945302657755101805e-01,'FINITE');
INSERT INTO "trial_values" VALUES(4,5,0,2.7568778511513142293e-01,'FINITE');
INSERT INTO "trial_values" VALUES(5,4,0,4.09827874115829438039e-01,'FINITE');
INSERT INTO "trial_values" VALUES(6,7,0,9.71062910563578185474e-01,'FINITE');
INSERT INTO "trial_values" VALUES(7,8,0,0.0986235120929447,'FINITE');
INSERT INTO "trial_values" VALUES(8,6,0,1.10449319161179349002e+00,'FINITE');
INSERT INTO "trial_values" VALUES(9,9,0,4.09079414591660472932e-01,'FINITE');
INSERT INTO "trial_values" VALUES(10,11,0,2.39309420905852471284e-01,'FINITE');
INSERT INTO "trial_values" VALUES(11,12,0,3.67161039899072894066e-01,'FINITE');
INSERT INTO "trial_values" VALUES(12,10,0,1.39979184039689052987e+00,'FINITE');
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
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-27 13:11:43.629996','2026-11-27 13:11:43.641933');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-27 13:11:43.637192','2026-11-27 13:11:43.644832');
INSERT INTO "trials" VALUES(3,2,1,'COMPLETE','2026-11-27 13:11:43.641933','2026-11-27 13:11:43.659016');
INSERT INTO "trials" VALUES(4,3,1,'COMPLETE','2026-11-27 13:11:43.644832','2026-11-27 13:11:43.683153');
INSERT INTO "trials" VALUES(5,4,1,'COMPLETE','2026-11-27 13:11:43.659016','2026-11-27 13:11:43.674605');
INSERT INTO "trials" VALUES(6,5,1,'COMPLETE','2026-11-27 13:11:43.674605','2026-11-27 13:11:43.773653');
INSERT INTO "trials" VALUES(7,6,1,'COMPLETE','2026-11-27 13:11:43.683153','2026-11-27 13:11:43.766333');
INSERT INTO "trials" VALUES(8,7,1,'COMPLETE','2026-11-27 13:11:43.766333','2026-11-27 13:11:43.770107');
INSERT INTO "trials" VALUES(9,8,1,'COMPLETE','2026-11-27 13:11:43.770107','2026-11-27 13:11:43.777403');
INSERT INTO "trials" VALUES(10,9,1,'PRUNED','2026-11-27 13:11:43.777403','2026-11-27 13:11:43.857223');
INSERT INTO "trials" VALUES(11,10,1,'COMPLETE','2026-11-27 13:11:43.808181','2026-11-27 13:11:43.834449');
INSERT INTO "trials" VALUES(12,11,1,'PRUNED','2026-11-27 13:11:43.834449','2026-11-27 13:11:43.850572');
CREATE TABLE tune_attempts (
    trial_id INTEGER NOT NULL REFERENCES trials(trial_id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    worker INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    device TEXT NOT NULL,
    log TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    outcome TEXT,
    detail TEXT,
    again INTEGER,
    PRIMARY KEY (trial_id, attempt)
) WITHOUT ROWID;
INSERT INTO "tune_attempts" VALUES(1,0,1,0,19928,'cpu','logs/kept/trial-000000-attempt-0.log','2026-11-27 13:11:43.629996','2026-11-27 13:11:43.641933','completed','',0);
INSERT INTO "tune_attempts" VALUES(2,0,1,1,19932,'cpu','logs/kept/trial-000001-attempt-0.log','2026-11-27 13:11:43.637192','2026-11-27 13:11:43.644832','completed','',0);
INSERT INTO "tune_attempts" VALUES(3,0,1,0,19928,'cpu','logs/kept/trial-000002-attempt-0.log','2026-11-27 13:11:43.641933','2026-11-27 13:11:43.659016','completed','',0);
INSERT INTO "tune_attempts" VALUES(4,0,1,1,19932,'cpu','logs/kept/trial-000003-attempt-0.log','2026-11-27 13:11:43.644832','2026-11-27 13:11:43.683153','completed','',0);
INSERT INTO "tune_attempts" VALUES(5,0,1,0,19928,'cpu','logs/kept/trial-000004-attempt-0.log','2026-11-27 13:11:43.659016','2026-11-27 13:11:43.674605','completed','',0);
INSERT INTO "tune_attempts" VALUES(6,0,1,0,19928,'cpu','logs/kept/trial-000005-attempt-0.log','2026-11-27 13:11:43.674605','2026-11-27 13:11:43.753507','crash','the worker died of SIGABRT',1);
INSERT INTO "tune_attempts" VALUES(6,1,1,2,19941,'cpu','logs/kept/trial-000005-attempt-1.log','2026-11-27 13:11:43.768032','2026-11-27 13:11:43.773653','completed','it passed with blocking launches: the trial had been a victim',0);
INSERT INTO "tune_attempts" VALUES(7,0,1,1,19932,'cpu','logs/kept/trial-000006-attempt-0.log','2026-11-27 13:11:43.683153','2026-11-27 13:11:43.766333','completed','',0);
INSERT INTO "tune_attempts" VALUES(8,0,1,1,19932,'cpu','logs/kept/trial-000007-attempt-0.log','2026-11-27 13:11:43.766333','2026-11-27 13:11:43.770107','completed','',0);
INSERT INTO "tune_attempts" VALUES(9,0,1,1,19932,'cpu','logs/kept/trial-000008-attempt-0.log','2026-11-27 13:11:43.770107','2026-11-27 13:11:43.777403','completed','',0);
INSERT INTO "tune_attempts" VALUES(10,0,1,1,19932,'cpu','logs/kept/trial-000009-attempt-0.log','2026-11-27 13:11:43.777403','2026-11-27 13:11:43.829502','crash','the worker died of SIGABRT',1);
INSERT INTO "tune_attempts" VALUES(10,1,1,4,19955,'cpu','logs/kept/trial-000009-attempt-1.log','2026-11-27 13:11:43.849444','2026-11-27 13:11:43.857223','pruned','it passed with blocking launches: the trial had been a victim',0);
INSERT INTO "tune_attempts" VALUES(11,0,1,3,19948,'cpu','logs/kept/trial-000010-attempt-0.log','2026-11-27 13:11:43.808181','2026-11-27 13:11:43.834449','completed','',0);
INSERT INTO "tune_attempts" VALUES(12,0,1,3,19948,'cpu','logs/kept/trial-000011-attempt-0.log','2026-11-27 13:11:43.834449','2026-11-27 13:11:43.850572','pruned','',0);
CREATE TABLE tune_gpu_samples (
    run_id INTEGER NOT NULL REFERENCES tune_runs(run_id) ON DELETE CASCADE,
    gpu INTEGER NOT NULL,
    time TEXT NOT NULL,
    samples INTEGER NOT NULL,
    memory_total INTEGER NOT NULL,
    memory_used INTEGER NOT NULL,
    memory_peak INTEGER NOT NULL,
    utilization REAL,
    utilization_peak INTEGER,
    temperature REAL,
    temperature_peak INTEGER,
    power REAL,
    power_peak REAL,
    clock REAL,
    throttle TEXT NOT NULL,
    ecc_uncorrected INTEGER,
    remapped_rows INTEGER,
    recovery_action TEXT,
    PRIMARY KEY (run_id, gpu, time)
) WITHOUT ROWID;
CREATE TABLE tune_leases (
    run_id INTEGER PRIMARY KEY REFERENCES tune_runs(run_id) ON DELETE CASCADE,
    node TEXT NOT NULL,
    seconds INTEGER NOT NULL,
    expires INTEGER NOT NULL
);
CREATE TABLE tune_memory (
    trial_id INTEGER NOT NULL REFERENCES trials(trial_id) ON DELETE CASCADE,
    purpose TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    device TEXT NOT NULL,
    outcome TEXT NOT NULL,
    capacity INTEGER,
    allocated INTEGER,
    reserved INTEGER,
    unallocated INTEGER,
    inactive_split INTEGER,
    retries INTEGER,
    ooms INTEGER,
    process INTEGER,
    context INTEGER,
    resident INTEGER,
    resident_before INTEGER,
    granted INTEGER,
    predicted_lower INTEGER,
    predicted_expected INTEGER,
    predicted_upper INTEGER,
    halvings INTEGER NOT NULL,
    PRIMARY KEY (trial_id, purpose, repeat, attempt)
) WITHOUT ROWID;
INSERT INTO "tune_memory" VALUES(1,'repeat',1,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18726912,18726912,133711904,16540618,18627425,19619868,0);
INSERT INTO "tune_memory" VALUES(1,'repeat',2,0,'cpu','crash',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,133414392,17059235,18582222,19361162,0);
INSERT INTO "tune_memory" VALUES(1,'repeat',2,1,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18464768,17907712,133414392,17059235,18582222,19361162,0);
INSERT INTO "tune_memory" VALUES(1,'search',0,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18567168,17952768,NULL,NULL,NULL,NULL,0);
INSERT INTO "tune_memory" VALUES(1,'test',0,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18296832,18296832,133284451,17052224,18486022,19248170,0);
INSERT INTO "tune_memory" VALUES(2,'search',0,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18714624,17924096,NULL,NULL,NULL,NULL,0);
INSERT INTO "tune_memory" VALUES(3,'repeat',1,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18432000,17666048,133663020,16678954,18635059,19577360,0);
INSERT INTO "tune_memory" VALUES(3,'repeat',2,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18280448,18280448,133364099,17102118,18562479,19317429,0);
INSERT INTO "tune_memory" VALUES(3,'search',0,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18747392,18747392,1138783644,0,18567167,893595294,0);
INSERT INTO "tune_memory" VALUES(4,'repeat',1,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18579456,18575360,133471016,17013804,18611545,19410400,0);
INSERT INTO "tune_memory" VALUES(4,'repeat',2,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18112512,18112512,133337197,17037888,18516520,19294036,0);
INSERT INTO "tune_memory" VALUES(4,'search',0,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18845696,18845696,199944221,0,18640750,77213187,0);
INSERT INTO "tune_memory" VALUES(5,'repeat',1,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18571264,18571264,133555089,16855274,18616648,19483507,0);
INSERT INTO "tune_memory" VALUES(5,'repeat',2,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,17981440,17453056,133343336,17108114,18550127,19299374,0);
INSERT INTO "tune_memory" VALUES(5,'search',0,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18755584,18755584,133092138,0,18676229,19080941,0);
INSERT INTO "tune_memory" VALUES(6,'search',0,0,'cpu','crash',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,133040490,0,18696036,19036030,0);
INSERT INTO "tune_memory" VALUES(6,'search',0,1,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18231296,17649664,133179586,0,18746469,19156983,0);
INSERT INTO "tune_memory" VALUES(7,'repeat',1,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18579456,18579456,133435753,17079949,18609760,19379737,0);
INSERT INTO "tune_memory" VALUES(7,'repeat',2,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18296832,18292736,133315012,17054511,18507862,19274745,0);
INSERT INTO "tune_memory" VALUES(7,'search',0,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18849792,18849792,133089250,0,18725873,19078430,0);
INSERT INTO "tune_memory" VALUES(8,'repeat',1,0,'cpu','crash',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,133663020,16678954,18635059,19577360,0);
INSERT INTO "tune_memory" VALUES(8,'repeat',1,1,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18096128,17518592,133510525,16939494,18613809,19444756,0);
INSERT INTO "tune_memory" VALUES(8,'repeat',2,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18268160,17715200,133414392,17059235,18582222,19361162,0);
INSERT INTO "tune_memory" VALUES(8,'search',0,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18907136,18857984,133179586,0,18746469,19156983,0);
INSERT INTO "tune_memory" VALUES(9,'repeat',1,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18575360,18575360,133510525,16939494,18613809,19444756,0);
INSERT INTO "tune_memory" VALUES(9,'repeat',2,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18292736,18292736,133322411,17117453,18539157,19281179,0);
INSERT INTO "tune_memory" VALUES(9,'search',0,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18907136,18857984,133202040,0,18769338,19176508,0);
INSERT INTO "tune_memory" VALUES(10,'search',0,0,'cpu','crash',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,133508003,17455085,18723991,19442563,0);
INSERT INTO "tune_memory" VALUES(10,'search',0,1,'cpu','pruned',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,17731584,17154048,133444215,17546746,18710312,19387095,0);
INSERT INTO "tune_memory" VALUES(11,'repeat',1,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18563072,18563072,133605935,16759385,18620481,19527721,0);
INSERT INTO "tune_memory" VALUES(11,'repeat',2,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18288640,18288640,133343336,17108114,18550127,19299374,0);
INSERT INTO "tune_memory" VALUES(11,'search',0,0,'cpu','completed',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18587648,17997824,133508003,17455085,18723991,19442563,0);
INSERT INTO "tune_memory" VALUES(12,'search',0,0,'cpu','pruned',25276063744,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,18718720,18718720,133444215,17546746,18710312,19387095,0);
CREATE TABLE tune_migrations (
            version INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            applied TEXT NOT NULL
        );
INSERT INTO "tune_migrations" VALUES(1,'studies, runs and attempts','2026-11-27 13:11:43.570939');
INSERT INTO "tune_migrations" VALUES(2,'repeats','2026-11-27 13:11:43.570939');
INSERT INTO "tune_migrations" VALUES(3,'gpu samples','2026-11-27 13:11:43.570939');
INSERT INTO "tune_migrations" VALUES(4,'memory','2026-11-27 13:11:43.570939');
INSERT INTO "tune_migrations" VALUES(5,'leases','2026-11-27 13:11:43.570939');
CREATE TABLE tune_repeat_attempts (
    trial_id INTEGER NOT NULL REFERENCES trials(trial_id) ON DELETE CASCADE,
    purpose TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    worker INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    device TEXT NOT NULL,
    log TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    outcome TEXT,
    detail TEXT,
    again INTEGER,
    PRIMARY KEY (trial_id, purpose, repeat, attempt)
) WITHOUT ROWID;
INSERT INTO "tune_repeat_attempts" VALUES(1,'repeat',1,0,1,3,19948,'cpu','logs/kept/trial-000000-repeat-1-attempt-0.log','2026-11-27 13:11:43.857223','2026-11-27 13:11:43.865068','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(1,'repeat',2,0,1,5,19962,'cpu','logs/kept/trial-000000-repeat-2-attempt-0.log','2026-11-27 13:11:43.956694','2026-11-27 13:11:43.993061','crash','the worker died of SIGABRT',1);
INSERT INTO "tune_repeat_attempts" VALUES(1,'repeat',2,1,1,8,19981,'cpu','logs/kept/trial-000000-repeat-2-attempt-1.log','2026-11-27 13:11:44.010841','2026-11-27 13:11:44.018176','completed','it passed with blocking launches: the trial had been a victim',0);
INSERT INTO "tune_repeat_attempts" VALUES(1,'test',0,0,1,7,19977,'cpu','logs/kept/trial-000000-test-attempt-0.log','2026-11-27 13:11:44.095873','2026-11-27 13:11:44.110399','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(3,'repeat',1,0,1,5,19962,'cpu','logs/kept/trial-000002-repeat-1-attempt-0.log','2026-11-27 13:11:43.902974','2026-11-27 13:11:43.909256','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(3,'repeat',2,0,1,7,19977,'cpu','logs/kept/trial-000002-repeat-2-attempt-0.log','2026-11-27 13:11:44.029726','2026-11-27 13:11:44.058499','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(4,'repeat',1,0,1,5,19962,'cpu','logs/kept/trial-000003-repeat-1-attempt-0.log','2026-11-27 13:11:43.931119','2026-11-27 13:11:43.939223','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(4,'repeat',2,0,1,9,19990,'cpu','logs/kept/trial-000003-repeat-2-attempt-0.log','2026-11-27 13:11:44.081155','2026-11-27 13:11:44.090279','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(5,'repeat',1,0,1,5,19962,'cpu','logs/kept/trial-000004-repeat-1-attempt-0.log','2026-11-27 13:11:43.914092','2026-11-27 13:11:43.918529','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(5,'repeat',2,0,1,9,19990,'cpu','logs/kept/trial-000004-repeat-2-attempt-0.log','2026-11-27 13:11:44.061825','2026-11-27 13:11:44.081155','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(7,'repeat',1,0,1,5,19962,'cpu','logs/kept/trial-000006-repeat-1-attempt-0.log','2026-11-27 13:11:43.939223','2026-11-27 13:11:43.956694','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(7,'repeat',2,0,1,7,19977,'cpu','logs/kept/trial-000006-repeat-2-attempt-0.log','2026-11-27 13:11:44.085131','2026-11-27 13:11:44.095873','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(8,'repeat',1,0,1,3,19948,'cpu','logs/kept/trial-000007-repeat-1-attempt-0.log','2026-11-27 13:11:43.865068','2026-11-27 13:11:43.901526','crash','the worker died of SIGABRT',1);
INSERT INTO "tune_repeat_attempts" VALUES(8,'repeat',1,1,1,6,19969,'cpu','logs/kept/trial-000007-repeat-1-attempt-1.log','2026-11-27 13:11:43.922711','2026-11-27 13:11:43.954077','completed','it passed with blocking launches: the trial had been a victim',0);
INSERT INTO "tune_repeat_attempts" VALUES(8,'repeat',2,0,1,7,19977,'cpu','logs/kept/trial-000007-repeat-2-attempt-0.log','2026-11-27 13:11:44.009648','2026-11-27 13:11:44.029726','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(9,'repeat',1,0,1,5,19962,'cpu','logs/kept/trial-000008-repeat-1-attempt-0.log','2026-11-27 13:11:43.918529','2026-11-27 13:11:43.931119','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(9,'repeat',2,0,1,7,19977,'cpu','logs/kept/trial-000008-repeat-2-attempt-0.log','2026-11-27 13:11:44.068791','2026-11-27 13:11:44.085131','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(11,'repeat',1,0,1,5,19962,'cpu','logs/kept/trial-000010-repeat-1-attempt-0.log','2026-11-27 13:11:43.909256','2026-11-27 13:11:43.914092','completed','',0);
INSERT INTO "tune_repeat_attempts" VALUES(11,'repeat',2,0,1,7,19977,'cpu','logs/kept/trial-000010-repeat-2-attempt-0.log','2026-11-27 13:11:44.058499','2026-11-27 13:11:44.068791','completed','',0);
CREATE TABLE tune_repeats (
    trial_id INTEGER NOT NULL REFERENCES trials(trial_id) ON DELETE CASCADE,
    purpose TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    state TEXT NOT NULL,
    value REAL,
    attrs_json TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    PRIMARY KEY (trial_id, purpose, repeat)
) WITHOUT ROWID;
INSERT INTO "tune_repeats" VALUES(1,'repeat',1,4721652089824520530,'COMPLETE',1.64902032589381880578e-01,'{"attempts": 1, "runtime_s": 0.001, "worker": 3, "device": "cpu", "peak_memory_mb": 17.859, "best_epoch": 4, "last_value": 0.27391081305796877, "metric.accuracy": 0.8479767741075956, "metric.cost": 0.128}','2026-11-27 13:11:43.857223','2026-11-27 13:11:43.865068');
INSERT INTO "tune_repeats" VALUES(1,'repeat',2,5466626969652419251,'COMPLETE',9.87778890316672458782e-02,'{"attempts": 2, "runtime_s": 0.006, "worker": 8, "device": "cpu", "peak_memory_mb": 17.609, "best_epoch": 4, "last_value": 0.2002215317191811, "metric.accuracy": 0.9059439057567724, "metric.cost": 0.128}','2026-11-27 13:11:43.956694','2026-11-27 13:11:44.018176');
INSERT INTO "tune_repeats" VALUES(1,'test',0,212664300698079846,'COMPLETE',4.86147051943179586697e-02,'{"attempts": 1, "runtime_s": 0.005, "worker": 7, "device": "cpu", "peak_memory_mb": 17.449, "best_epoch": 6, "last_value": 0.15454822746548028, "metric.accuracy": 0.8568021697486026, "metric.cost": 0.128, "metric.test.accuracy": 0.9525480708275622, "metric.test.cost": 0.128, "metric.test.loss": 0.04861470519431796, "validation": 0.15454822746548028}','2026-11-27 13:11:44.095873','2026-11-27 13:11:44.110399');
INSERT INTO "tune_repeats" VALUES(3,'repeat',1,4368917490862758318,'COMPLETE',2.31638237380507316931e-01,'{"attempts": 1, "runtime_s": 0.001, "worker": 5, "device": "cpu", "peak_memory_mb": 17.578, "best_epoch": 4, "last_value": 0.2661328707203294, "metric.accuracy": 0.7932330334669242, "metric.cost": 0.448}','2026-11-27 13:11:43.902974','2026-11-27 13:11:43.909256');
INSERT INTO "tune_repeats" VALUES(3,'repeat',2,2574573008367073034,'COMPLETE',2.4435077537684202209e-01,'{"attempts": 1, "runtime_s": 0.006, "worker": 7, "device": "cpu", "peak_memory_mb": 17.434, "best_epoch": 6, "last_value": 0.24435077537684202, "metric.accuracy": 0.7832128542885449, "metric.cost": 0.448}','2026-11-27 13:11:44.029726','2026-11-27 13:11:44.058499');
INSERT INTO "tune_repeats" VALUES(4,'repeat',1,8359091070563703074,'COMPLETE',3.43778426719100083097e-01,'{"attempts": 1, "runtime_s": 0.005, "worker": 5, "device": "cpu", "peak_memory_mb": 17.719, "best_epoch": 6, "last_value": 0.3437784267191001, "metric.accuracy": 0.7090860251616421, "metric.cost": 0.064}','2026-11-27 13:11:43.931119','2026-11-27 13:11:43.939223');
INSERT INTO "tune_repeats" VALUES(4,'repeat',2,5053255176591400265,'COMPLETE',4.62144172960697541263e-01,'{"attempts": 1, "runtime_s": 0.005, "worker": 9, "device": "cpu", "peak_memory_mb": 17.273, "best_epoch": 6, "last_value": 0.46214417296069754, "metric.accuracy": 0.6299315143033152, "metric.cost": 0.064}','2026-11-27 13:11:44.081155','2026-11-27 13:11:44.090279');
INSERT INTO "tune_repeats" VALUES(5,'repeat',1,2761416828993935923,'COMPLETE',1.5272350489881808544e-01,'{"attempts": 1, "runtime_s": 0.001, "worker": 5, "device": "cpu", "peak_memory_mb": 17.711, "best_epoch": 5, "last_value": 0.4393538899371505, "metric.accuracy": 0.8583670232804883, "metric.cost": 0.32}','2026-11-27 13:11:43.914092','2026-11-27 13:11:43.918529');
INSERT INTO "tune_repeats" VALUES(5,'repeat',2,8115951833726287969,'COMPLETE',2.41241886995529675186e-01,'{"attempts": 1, "runtime_s": 0.012, "worker": 9, "device": "cpu", "peak_memory_mb": 17.148, "best_epoch": 5, "last_value": 0.39253586974309945, "metric.accuracy": 0.7856515645060518, "metric.cost": 0.32}','2026-11-27 13:11:44.061825','2026-11-27 13:11:44.081155');
INSERT INTO "tune_repeats" VALUES(7,'repeat',1,1116523589379077327,'COMPLETE',0.988423598588779,'{"attempts": 1, "runtime_s": 0.005, "worker": 5, "device": "cpu", "peak_memory_mb": 17.719, "best_epoch": 5, "last_value": 1.0121404858947753, "metric.accuracy": 0.3721629069765811, "metric.cost": 0.512}','2026-11-27 13:11:43.939223','2026-11-27 13:11:43.956694');
INSERT INTO "tune_repeats" VALUES(7,'repeat',2,7021093995712252186,'COMPLETE',8.29254221406874436617e-01,'{"attempts": 1, "runtime_s": 0.002, "worker": 7, "device": "cpu", "peak_memory_mb": 17.449, "best_epoch": 5, "last_value": 0.8582434903945764, "metric.accuracy": 0.43637460383716337, "metric.cost": 0.512}','2026-11-27 13:11:44.085131','2026-11-27 13:11:44.095873');
INSERT INTO "tune_repeats" VALUES(8,'repeat',1,1520642071812829722,'COMPLETE',1.53370710544298127775e-01,'{"attempts": 2, "runtime_s": 0.025, "worker": 6, "device": "cpu", "peak_memory_mb": 17.258, "best_epoch": 3, "last_value": 0.31187023374078027, "metric.accuracy": 0.8578116630326567, "metric.cost": 0.128}','2026-11-27 13:11:43.865068','2026-11-27 13:11:43.954077');
INSERT INTO "tune_repeats" VALUES(8,'repeat',2,2735402912684785497,'COMPLETE',2.17109530625379132384e-01,'{"attempts": 1, "runtime_s": 0.008, "worker": 7, "device": "cpu", "peak_memory_mb": 17.422, "best_epoch": 5, "last_value": 0.28874339371086466, "metric.accuracy": 0.8048418096502563, "metric.cost": 0.128}','2026-11-27 13:11:44.009648','2026-11-27 13:11:44.029726');
INSERT INTO "tune_repeats" VALUES(9,'repeat',1,8627280867349728919,'COMPLETE',4.25342209707803731166e-01,'{"attempts": 1, "runtime_s": 0.009, "worker": 5, "device": "cpu", "peak_memory_mb": 17.715, "best_epoch": 6, "last_value": 0.42534220970780373, "metric.accuracy": 0.6535460970390081, "metric.cost": 0.384}','2026-11-27 13:11:43.918529','2026-11-27 13:11:43.931119');
INSERT INTO "tune_repeats" VALUES(9,'repeat',2,3629999417054379275,'COMPLETE',4.11950324587274596677e-01,'{"attempts": 1, "runtime_s": 0.005, "worker": 7, "device": "cpu", "peak_memory_mb": 17.445, "best_epoch": 5, "last_value": 0.5801116282258864, "metric.accuracy": 0.6623571781010978, "metric.cost": 0.384}','2026-11-27 13:11:44.068791','2026-11-27 13:11:44.085131');
INSERT INTO "tune_repeats" VALUES(11,'repeat',1,5951856321686239530,'COMPLETE',1.9057674369517077495e-01,'{"attempts": 1, "runtime_s": 0.002, "worker": 5, "device": "cpu", "peak_memory_mb": 17.703, "best_epoch": 3, "last_value": 0.2969742595629091, "metric.accuracy": 0.8264823279873279, "metric.cost": 0.384}','2026-11-27 13:11:43.909256','2026-11-27 13:11:43.914092');
INSERT INTO "tune_repeats" VALUES(11,'repeat',2,1649519537254037007,'COMPLETE',3.17290822939309657968e-01,'{"attempts": 1, "runtime_s": 0.006, "worker": 7, "device": "cpu", "peak_memory_mb": 17.441, "best_epoch": 6, "last_value": 0.31729082293930966, "metric.accuracy": 0.7281189706320936, "metric.cost": 0.384}','2026-11-27 13:11:44.058499','2026-11-27 13:11:44.068791');
CREATE TABLE tune_runs (
    run_id INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id INTEGER NOT NULL REFERENCES studies(study_id) ON DELETE CASCADE,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    version TEXT NOT NULL,
    command_json TEXT NOT NULL,
    operation_json TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    exit_code INTEGER
);
INSERT INTO "tune_runs" VALUES(1,1,19916,'host','0.1.0','["tune","kept","--trials","12","--parallel","2","--repeats","2","--inject","abort:0.2","--plain"]','{"trials":12,"repeats":2,"test":"auto","keep_best":1,"max_kept_bytes":68719476736,"parallel":2,"timeout":null,"by":null,"leave_in":null,"storage":null,"lease":{"secs":300,"nanos":0},"until_flat":null,"grace":null,"trial_limit":null,"device":"Auto","threads":null,"supervisor":{"recycle_after":50,"deadline":{"Learned":{"floor":{"secs":60,"nanos":0},"ceiling":{"secs":600,"nanos":0},"factor":20.0}},"start_deadline":{"secs":600,"nanos":0},"grace":{"secs":5,"nanos":0},"abandon_after":{"secs":30,"nanos":0},"max_deaths":5,"death_window":{"secs":60,"nanos":0},"backoff":{"secs":1,"nanos":0},"max_backoff":{"secs":60,"nanos":0},"max_failures":20,"max_refused":200,"storage_patience":{"secs":60,"nanos":0},"checkpoint":false},"gpu_memory":0.8,"gpu_alone":0.95,"host_memory":0.9,"halve":false,"standby":"auto","max_log_bytes":4194304,"max_logs_bytes":536870912,"sampler":{"kind":"auto","options":{"constant_liar":true,"multivariate":true,"n_ei_candidates":24,"n_startup_trials":8}},"pruner":{"kind":"auto","options":{"chance":0.05,"n_startup_trials":8,"n_warmup_steps":"auto"}},"audit":0.0,"inject":{"plan":{"items":[{"kind":"abort","amount":{"rate":0.2},"culprit":false}]},"seed":0,"ledger":"/project/tune.db.d/injected/kept.jsonl"},"study":{"task":"kept","kind":"synthetic","file":"/project/configs/kept.toml","study":"kept","objective":{"metric":"loss","direction":"minimize"},"further":[],"seed":0,"space":{"parameters":[{"name":"optim.lr","domain":{"kind":"float","low":0.00001,"high":1.0,"log":true,"step":null},"when":[],"high_when":[],"default":0.01},{"name":"optim.name","domain":{"kind":"categorical","choices":["adam","sgd"]},"when":[],"high_when":[],"default":"adam"},{"name":"optim.momentum","domain":{"kind":"float","low":0.0,"high":0.99,"log":false,"step":null},"when":[{"parent":"optim.name","values":["sgd"]}],"high_when":[],"default":0.9},{"name":"model.layers","domain":{"kind":"int","low":1,"high":8,"log":false,"step":1},"when":[],"high_when":[],"default":2}],"constraints":[],"fixed":{"model.width":64,"task.noise":0.1,"task.step_ms":0.0,"task.steps":1,"train.epochs":6,"train.min_delta":0.0,"train.patience":0}},"fixed":{"model.width":64,"task.noise":0.1,"task.step_ms":0.0,"task.steps":1,"train.epochs":6,"train.min_delta":0.0,"train.patience":0},"lists":{},"models":{},"points":[]}}','2026-11-27 13:11:43.587334','2026-11-27 13:11:44.122959',0);
CREATE TABLE tune_studies (
    study_id INTEGER PRIMARY KEY REFERENCES studies(study_id) ON DELETE CASCADE,
    identity_json TEXT NOT NULL,
    created TEXT NOT NULL
);
INSERT INTO "tune_studies" VALUES(1,'{"task.kind":"synthetic","study.seed":0,"objective.metric":"loss","objective.direction":"minimize","task.steps":1,"task.noise":0.1,"train.epochs":6,"train.patience":0,"train.min_delta":0.0,"model.width":64,"space.optim.lr":{"domain":{"kind":"float","low":0.00001,"high":1.0,"log":true,"step":null},"when":[],"high_when":[],"default":0.01},"space.optim.name":{"domain":{"kind":"categorical","choices":["adam","sgd"]},"when":[],"high_when":[],"default":"adam"},"space.optim.momentum":{"domain":{"kind":"float","low":0.0,"high":0.99,"log":false,"step":null},"when":[{"parent":"optim.name","values":["sgd"]}],"high_when":[],"default":0.9},"space.model.layers":{"domain":{"kind":"int","low":1,"high":8,"log":false,"step":1},"when":[],"high_when":[],"default":2}}','2026-11-27 13:11:43.585823');
CREATE TABLE tune_trials (
    trial_id INTEGER PRIMARY KEY REFERENCES trials(trial_id) ON DELETE CASCADE,
    run_id INTEGER NOT NULL
);
INSERT INTO "tune_trials" VALUES(1,1);
INSERT INTO "tune_trials" VALUES(2,1);
INSERT INTO "tune_trials" VALUES(3,1);
INSERT INTO "tune_trials" VALUES(4,1);
INSERT INTO "tune_trials" VALUES(5,1);
INSERT INTO "tune_trials" VALUES(6,1);
INSERT INTO "tune_trials" VALUES(7,1);
INSERT INTO "tune_trials" VALUES(8,1);
INSERT INTO "tune_trials" VALUES(9,1);
INSERT INTO "tune_trials" VALUES(10,1);
INSERT INTO "tune_trials" VALUES(11,1);
INSERT INTO "tune_trials" VALUES(12,1);
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
CREATE INDEX tune_ix_runs_study ON tune_runs (study_id);
CREATE INDEX tune_ix_trials_state ON trials (study_id, state);
CREATE INDEX tune_ix_trials_number ON trials (study_id, number);
CREATE TRIGGER tune_trial_deleted BEFORE DELETE ON trials BEGIN
    DELETE FROM tune_attempts WHERE trial_id = OLD.trial_id;
    DELETE FROM tune_trials WHERE trial_id = OLD.trial_id;
END;
CREATE TRIGGER tune_study_deleted BEFORE DELETE ON studies BEGIN
    DELETE FROM tune_runs WHERE study_id = OLD.study_id;
    DELETE FROM tune_studies WHERE study_id = OLD.study_id;
END;
CREATE TRIGGER tune_repeated_trial_deleted BEFORE DELETE ON trials BEGIN
    DELETE FROM tune_repeat_attempts WHERE trial_id = OLD.trial_id;
    DELETE FROM tune_repeats WHERE trial_id = OLD.trial_id;
END;
CREATE TRIGGER tune_sampled_run_deleted BEFORE DELETE ON tune_runs BEGIN
    DELETE FROM tune_gpu_samples WHERE run_id = OLD.run_id;
END;
CREATE TRIGGER tune_measured_trial_deleted BEFORE DELETE ON trials BEGIN
    DELETE FROM tune_memory WHERE trial_id = OLD.trial_id;
END;
CREATE TRIGGER tune_leasing_run_deleted BEFORE DELETE ON tune_runs BEGIN
    DELETE FROM tune_leases WHERE run_id = OLD.run_id;
END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('tune_runs',1);
COMMIT;
